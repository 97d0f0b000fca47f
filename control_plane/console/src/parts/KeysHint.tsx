/** Which keys there are (until the first press), and which are down. */
import { capOf } from "../controls/keys";

function Keys({ keys, does }: { keys: readonly string[]; does: string }) {
  return (
    <span>
      {keys.map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
      <span>{does}</span>
    </span>
  );
}

export function KeysHint({ gone }: { gone: boolean }) {
  return (
    <div className={gone ? "hint gone" : "hint"} aria-hidden={gone}>
      <Keys keys={["W", "A", "S", "D"]} does="move" />
      <Keys keys={["←", "↑", "↓", "→"]} does="look" />
    </div>
  );
}

export function HeldKeys({ held }: { held: readonly string[] }) {
  return (
    <div className="held" aria-hidden="true">
      {held.map((control) => (
        <kbd key={control}>{capOf(control)}</kbd>
      ))}
    </div>
  );
}
