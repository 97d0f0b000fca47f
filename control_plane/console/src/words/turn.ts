/** Whose turn is it on a model that several sessions share? Null: this person's, or nobody waits. */

import type { Lease } from "../stage/protocol";
import { placeInLine } from "./place";

export function turnOf(lease: Lease | null): string | null {
  if (lease === null || lease.state === "granted") return null;
  if (lease.state === "parked") return "Others play; press a key for your turn";
  if (lease.position === null) return "Your turn comes soon";
  return `${placeInLine(lease.position)} for a turn`;
}
