/**
 * Pad and look-stick for fingers: the same controls as the keys.
 *
 * One finger each, followed wherever it goes until it lifts; both can be held at once.
 */
import { type PointerEvent, useEffect, useRef, useState } from "react";
import type { ControlSender } from "../controls/control-sender";
import { type Directions, heldAt, knobAt, LOOK, MOVE } from "../controls/directions";
import { capOf } from "../controls/keys";

export function TouchControls({ sender }: { sender: ControlSender }) {
  return (
    <div className="touch">
      <Pad name="Move" sender={sender} of={MOVE} caps />
      <Pad name="Look" sender={sender} of={LOOK} />
    </div>
  );
}

interface PadProps {
  readonly name: string;
  readonly sender: ControlSender;
  readonly of: Directions;
  /** A pad has its letters on it; a stick has a knob that follows the finger. */
  readonly caps?: boolean;
}

function Pad({ name, sender, of, caps = false }: PadProps) {
  const finger = useRef<number | null>(null);
  const down = useRef<readonly string[]>([]);
  const [held, setHeld] = useState<readonly string[]>([]);
  const [knob, setKnob] = useState<readonly [number, number]>([0, 0]);

  const hold = (controls: readonly string[]): void => {
    const before = down.current;
    down.current = controls;
    before.filter((control) => !controls.includes(control)).forEach((c) => sender.release(c));
    controls.filter((control) => !before.includes(control)).forEach((c) => sender.press(c));
    if (before.join() !== controls.join()) setHeld(controls);
  };
  const follow = (event: PointerEvent<HTMLElement>): void => {
    if (finger.current !== event.pointerId) return;
    const box = event.currentTarget.getBoundingClientRect();
    const radius = box.width / 2;
    const [dx, dy] = [event.clientX - box.left - radius, event.clientY - box.top - radius];
    hold(heldAt(dx, dy, radius, of));
    setKnob(knobAt(dx, dy, radius));
  };
  const take = (event: PointerEvent<HTMLElement>): void => {
    if (finger.current !== null) return;
    event.preventDefault();
    finger.current = event.pointerId;
    event.currentTarget.setPointerCapture(event.pointerId);
    follow(event);
  };
  const letGo = (event: PointerEvent<HTMLElement>): void => {
    if (finger.current !== event.pointerId) return;
    finger.current = null;
    hold([]);
    setKnob([0, 0]);
  };
  // Taken off the page under a finger: no event will come any more.
  useEffect(() => () => down.current.forEach((control) => sender.release(control)), [sender]);

  const sides = [of.up, of.right, of.down, of.left];
  return (
    <div
      className={`pad ${caps ? "with-caps" : "with-knob"}`}
      role="application"
      aria-label={`${name}: drag in a direction`}
      onPointerDown={take}
      onPointerMove={follow}
      onPointerUp={letGo}
      onPointerCancel={letGo}
      onContextMenu={(event) => event.preventDefault()}
    >
      {caps ? (
        sides.map((control) => (
          <span key={control} className={held.includes(control) ? "cap on" : "cap"}>
            {capOf(control)}
          </span>
        ))
      ) : (
        <span className="knob" style={{ translate: `${knob[0]}px ${knob[1]}px` }} />
      )}
      <span className="pad-name">{name}</span>
    </div>
  );
}
