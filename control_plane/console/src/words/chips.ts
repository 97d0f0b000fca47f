/** What is said in small over a picture that goes on? Pure. */

import type { Lease } from "../stage/protocol";
import { SHAPES, UNREACHABLE } from "./states";
import { spell } from "./time";
import { turnOf } from "./turn";

export interface Notes {
  readonly reachable: boolean;
  /** Words lie over the picture already. */
  readonly covered: boolean;
  readonly lease: Lease | null;
  /** Seconds until the session's time is up; null while that is far away. */
  readonly endsInS: number | null;
  /** Seconds until this stage closes; null if it doesn't. */
  readonly movesInS: number | null;
}

export function chipsOf(notes: Notes): readonly string[] {
  const { attention, waiting } = SHAPES;
  const chips: string[] = [];
  if (!notes.reachable && !notes.covered) chips.push(`${attention} ${UNREACHABLE}`);
  const turn = turnOf(notes.lease);
  if (turn !== null && !notes.covered) chips.push(`${waiting} ${turn}`);
  if (notes.endsInS !== null) chips.push(`${attention} Your time is up in ${spell(notes.endsInS)}`);
  if (notes.movesInS !== null) {
    chips.push(`${attention} This stage closes in ${spell(notes.movesInS)}; you'll move to another`);
  }
  return chips;
}
