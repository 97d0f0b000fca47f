/** Slots as a row of small squares: taken, free, not confirmed as empty, not allowed. */
import type { NodeSight } from "./types";

const MOST_SQUARES = 12;

export function Slots({ node }: { node: NodeSight }) {
  const { used, capacity, quarantined, reported_capacity: reported } = node;
  const numbers = `${used} / ${capacity}`;
  const kinds = [
    ...Array<string>(Math.max(0, used - quarantined)).fill("taken"),
    ...Array<string>(quarantined).fill("quarantined"),
    ...Array<string>(Math.max(0, capacity - used)).fill("free"),
    ...Array<string>(Math.max(0, reported - Math.max(capacity, used))).fill("barred"),
  ];
  const words = [
    `${used} of ${capacity} taken`,
    quarantined > 0 ? `${quarantined} not confirmed as empty` : "",
    reported > capacity ? `${reported - capacity} not allowed` : "",
  ].filter(Boolean);
  return (
    <span className="slots" title={words.join(", ")}>
      {kinds.length <= MOST_SQUARES && (
        <span className="squares" aria-hidden="true">
          {kinds.map((kind, index) => (
            <span key={index} className={`square ${kind}`} />
          ))}
        </span>
      )}
      <span className="muted">{numbers}</span>
    </span>
  );
}
