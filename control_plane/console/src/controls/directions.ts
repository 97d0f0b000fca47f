/** Which controls does a finger hold that lies here on a pad or a stick? Pure. */

/** What up, right, down and left are. */
export interface Directions {
  readonly up: string;
  readonly right: string;
  readonly down: string;
  readonly left: string;
}

export const MOVE: Directions = { up: "w", right: "d", down: "s", left: "a" };
export const LOOK: Directions = {
  up: "ArrowUp",
  right: "ArrowRight",
  down: "ArrowDown",
  left: "ArrowLeft",
};

/** Of the radius: a finger that rests in the middle holds nothing. */
const DEAD_SHARE = 0.22;
/** An eighth of the circle: between two directions both are held. */
const SLOPE = Math.tan(Math.PI / 8);

/** *dx*, *dy*: from the middle, to the right and down; *radius*: of the pad. */
export function heldAt(dx: number, dy: number, radius: number, of: Directions): readonly string[] {
  if (Math.hypot(dx, dy) < radius * DEAD_SHARE) return [];
  const held: string[] = [];
  if (Math.abs(dy) > Math.abs(dx) * SLOPE) held.push(dy < 0 ? of.up : of.down);
  if (Math.abs(dx) > Math.abs(dy) * SLOPE) held.push(dx < 0 ? of.left : of.right);
  return held;
}

/** Where the knob is drawn: at the finger, but not outside. */
export function knobAt(dx: number, dy: number, radius: number): readonly [x: number, y: number] {
  const far = Math.hypot(dx, dy);
  const share = far <= radius || far === 0 ? 1 : radius / far;
  return [dx * share, dy * share];
}
