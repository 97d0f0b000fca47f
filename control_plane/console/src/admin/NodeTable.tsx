/** What does each machine do, how full is it, and when was it heard last? */
import { useState } from "react";
import { Sign } from "../parts/Sign";
import { count, gib, nodeSign } from "../words/operator";
import { spell } from "../words/time";
import type { Asked } from "./Ask";
import { NodeDetails } from "./NodeDetails";
import { OpenRow } from "./OpenRow";
import { Slots } from "./Slots";
import type { Gpu, NodeSight, PoolSight } from "./types";

interface Props {
  readonly pool: PoolSight;
  readonly at: number;
  onAsk(asked: Asked): void;
}

export function NodeTable({ pool, at, onAsk }: Props) {
  const [open, setOpen] = useState<string | null>(null);
  const { nodes } = pool;
  const total = Object.values(pool.counts.nodes).reduce((sum, number) => sum + number, 0);
  return (
    <section className="panel" aria-label="Nodes">
      <header>
        <h2>Nodes</h2>
        <span className="muted">
          {count(total, "node", "nodes")}
          {nodes.length < total && `, ${nodes.length} of them here`}
        </span>
      </header>
      {nodes.length === 0 ? (
        <p className="empty">No node is there: start one with greenroom node.</p>
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">State</th>
                <th scope="col">Slots</th>
                <th scope="col" className="num">
                  Lease queue
                </th>
                <th scope="col">GPU memory</th>
                <th scope="col" className="num">
                  Last beat
                </th>
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <OpenRow
                  key={node.node_id}
                  label={`Node ${node.node_id}`}
                  open={open === node.node_id}
                  columns={6}
                  onToggle={() => setOpen(open === node.node_id ? null : node.node_id)}
                  first={<span className="name">{node.node_id}</span>}
                  below={<NodeDetails pool={pool.pool} node={node} at={at} onAsk={onAsk} />}
                >
                  <NodeCells node={node} at={at} />
                </OpenRow>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function NodeCells({ node, at }: { node: NodeSight; at: number }) {
  const moves = node.moves_at === null ? null : Math.max(0, node.moves_at - at);
  return (
    <>
      <td>
        <Sign sign={nodeSign(node, at)} />
        {moves !== null && moves > 0 && <span className="beneath">moves in {spell(moves)}</span>}
      </td>
      <td>
        <Slots node={node} />
      </td>
      <td className="num">{node.lease_waiting ?? "–"}</td>
      <td>
        <Memory gpus={node.gpus} />
      </td>
      <td className="num">{spell(at - node.beat_at)}</td>
    </>
  );
}

/** Of several GPUs the sum; the fullest one decides the colour. */
function Memory({ gpus }: { gpus: readonly Gpu[] }) {
  const known = gpus.filter((gpu) => gpu.used_mib !== null && gpu.total_mib !== null);
  if (known.length === 0) return <span className="muted">–</span>;
  const used = known.reduce((sum, gpu) => sum + (gpu.used_mib ?? 0), 0);
  const total = known.reduce((sum, gpu) => sum + (gpu.total_mib ?? 0), 0);
  const fullest = Math.max(...known.map((gpu) => (gpu.used_mib ?? 0) / Math.max(1, gpu.total_mib ?? 1)));
  const words = `${gib(used)} / ${gib(total)} GiB`;
  return (
    <span className="memory">
      <span className="meter" aria-hidden="true">
        <span
          className={fullest > 0.95 ? "full" : ""}
          style={{ width: `${Math.min(100, (100 * used) / Math.max(1, total))}%` }}
        />
      </span>
      {words}
    </span>
  );
}
