/** What does an operator want to know within a second? */
import type { ReactNode } from "react";
import { count, wallClock } from "../words/operator";
import { SHAPES, type Tone } from "../words/states";
import { spell } from "../words/time";
import type { PoolSight } from "./types";

const NODE_STATES: readonly (readonly [state: string, tone: Tone])[] = [
  ["busy", "live"],
  ["idle", "waiting"],
  ["loading", "starting"],
  ["error", "attention"],
];

const HOUR_S = 3_600;

export function Strip({ pool, at }: { pool: PoolSight; at: number }) {
  const { counts } = pool;
  const since = counts.waiting_since;
  const wholeHour = at - counts.counted_since > HOUR_S - 60;
  return (
    <dl className="strip">
      <Figure name="Waiting" value={counts.waiting.toLocaleString("en")}>
        {pool.max_waiting > 0 ? `room for ${pool.max_waiting.toLocaleString("en")}` : "no line"}
      </Figure>
      <Figure name="Longest wait" value={since === null ? "–" : spell(at - since)}>
        {since === null ? "nobody waits" : "the first in line"}
      </Figure>
      <Figure name="On stage" value={`${counts.slots_taken} / ${counts.slots}`}>
        {counts.quarantined > 0 ? (
          <span className="tone-attention">▲ {counts.quarantined} not confirmed as empty</span>
        ) : (
          "slots taken"
        )}
      </Figure>
      <Figure name="Nodes" value={Object.values(counts.nodes).reduce((sum, n) => sum + n, 0)}>
        <span className="states">
          {NODE_STATES.filter(([state]) => counts.nodes[state]).map(([state, tone]) => (
            <span key={state}>
              <span className={`tone-${tone}`} aria-hidden="true">
                {SHAPES[tone]}
              </span>{" "}
              {counts.nodes[state]} {state}
            </span>
          ))}
          {counts.nodes_closed > 0 && <span>{counts.nodes_closed} drained</span>}
        </span>
      </Figure>
      <Figure
        name={wholeHour ? "Failed in the last hour" : `Failed since ${wallClock(counts.counted_since)}`}
        value={counts.failed}
        bad={counts.failed > 0}
      >
        {counts.nodes_lost > 0 ? (
          <span className="tone-bad">▲ {count(counts.nodes_lost, "node", "nodes")} lost</span>
        ) : (
          "no node lost"
        )}
      </Figure>
    </dl>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: string | number;
  readonly bad?: boolean;
  readonly children: ReactNode;
}

function Figure({ name, value, bad = false, children }: FigureProps) {
  return (
    <div className="figure">
      <dt>{name}</dt>
      <dd className={bad ? "value tone-bad" : "value"}>{value}</dd>
      <dd className="note">{children}</dd>
    </div>
  );
}
