/** What more is known of a node, and what can an operator do with it? */
import { shortId, wallClock } from "../words/operator";
import { capacityQuestion, drainQuestion, resumeQuestion } from "../words/questions";
import { spell } from "../words/time";
import type { Asked } from "./Ask";
import { drain, limit, readNode, resume } from "./orders";
import type { Gpu, NodeSight } from "./types";

const COUNTDOWN_S = 60;

interface Props {
  readonly pool: string;
  readonly node: NodeSight;
  readonly at: number;
  onAsk(asked: Asked): void;
}

export function NodeDetails({ pool, node, at, onAsk }: Props) {
  const look = () => readNode(pool, node.node_id);
  const drained = node.admin === "draining";
  return (
    <div className="details">
      {node.troubles.length > 0 && (
        <ul className="troubles">
          {node.troubles.map((trouble) => (
            <li key={trouble}>
              <span className="tone-attention" aria-hidden="true">
                ▲
              </span>{" "}
              {trouble}
            </li>
          ))}
        </ul>
      )}
      <dl className="facts-list">
        <Fact name="Service">{[node.service, node.mode].filter(Boolean).join(", ")}</Fact>
        <Fact name="Host">{node.host}</Fact>
        <Fact name="Release">{node.release}</Fact>
        {node.registered_at !== null && (
          <Fact name="Up">
            {spell(at - node.registered_at)}, since {wallClock(node.registered_at)}
          </Fact>
        )}
        <Fact name="Slots">{slotWords(node)}</Fact>
        {node.fps !== null && (
          <Fact name="Plays">
            {node.fps} fps each
            {node.late_p95_s !== null && `, at most ${Math.round(node.late_p95_s * 1_000)} ms late`}
          </Fact>
        )}
        {node.gpus.map((gpu) => (
          <Fact name={`GPU ${gpu.number}`} key={gpu.number}>
            {gpuWords(gpu)}
          </Fact>
        ))}
        {node.sessions.length > 0 && (
          <Fact name="On it">{node.sessions.map(shortId).join(", ")}</Fact>
        )}
      </dl>
      <div className="acts">
        {drained ? (
          <button
            type="button"
            onClick={() =>
              onAsk({ look, question: (seen) => resumeQuestion(seen), act: (seen) => resume(seen) })
            }
          >
            Resume…
          </button>
        ) : (
          <button
            type="button"
            onClick={() =>
              onAsk({
                look,
                question: (seen) => drainQuestion(seen, null),
                act: (seen) => drain(seen, null),
              })
            }
          >
            Drain…
          </button>
        )}
        <button
          type="button"
          onClick={() =>
            onAsk({
              look,
              field: { label: "Seconds until they move", initial: COUNTDOWN_S, most: 86_400 },
              question: (seen, number) => drainQuestion(seen, number ?? COUNTDOWN_S),
              act: (seen, number) => drain(seen, number ?? COUNTDOWN_S),
            })
          }
        >
          Drain with a countdown…
        </button>
        <button
          type="button"
          onClick={() =>
            onAsk({
              look,
              field: {
                label: "Slots it may use (empty: all that it offers)",
                initial: node.admin_capacity,
                most: 100_000,
              },
              question: capacityQuestion,
              act: limit,
            })
          }
        >
          Slots…
        </button>
      </div>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function slotWords(node: NodeSight): string {
  const offers = `${node.used} taken, offers ${node.reported_capacity}`;
  return node.admin_capacity === null ? offers : `${offers}, may use ${node.capacity}`;
}

function gpuWords(gpu: Gpu): string {
  const { used_mib: used, total_mib: total } = gpu;
  return [
    gpu.name,
    used !== null && total !== null ? `${(used / 1024).toFixed(1)} of ${(total / 1024).toFixed(1)} GiB` : "",
    gpu.busy_percent === null ? "" : `${gpu.busy_percent} % busy`,
    gpu.temperature_c === null ? "" : `${gpu.temperature_c} °C`,
    gpu.ecc_errors ? `${gpu.ecc_errors} memory errors` : "",
    gpu.trouble,
  ]
    .filter(Boolean)
    .join(", ");
}
