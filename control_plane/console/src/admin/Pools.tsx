/** Which pools are there, and where is it crowded? */
import { SHAPES } from "../words/states";
import type { PoolSight } from "./types";

interface Props {
  readonly pools: readonly PoolSight[];
  readonly chosen: string;
  onChoose(pool: string): void;
}

export function Pools({ pools, chosen, onChoose }: Props) {
  return (
    <nav className="pools" aria-label="Pools">
      <div className="mark">
        <span className="tone-live" aria-hidden="true">
          {SHAPES.live}
        </span>
        Backstage
      </div>
      <h2>Pools</h2>
      <ul>
        {pools.map(({ pool, counts }) => (
          <li key={pool}>
            <button
              type="button"
              aria-current={pool === chosen ? "page" : undefined}
              onClick={() => onChoose(pool)}
            >
              <span className="pool-name">{pool}</span>
              <span className="muted small">
                {counts.slots_taken} of {counts.slots} on stage
                {counts.waiting > 0 && <>, {counts.waiting.toLocaleString("en")} waiting</>}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}
