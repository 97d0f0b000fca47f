/** What is said over the picture while there's no live one? Null: nothing covers it. Pure. */

import type { SessionRecord } from "../client/types";
import type { Lease } from "../stage/protocol";
import { youAre } from "./place";
import { type Picture, RECONNECTING, statusWords, UNREACHABLE } from "./states";
import { turnOf } from "./turn";

const LOST = "Your stage was lost (the machine failed)";

export interface Curtain {
  readonly words: string;
  /** Second line, smaller. */
  readonly more: string | null;
}

export interface Situation {
  readonly record: SessionRecord;
  readonly picture: Picture;
  readonly reachable: boolean;
  readonly ending: boolean;
  /** Seconds since the return to the line, null if the stage wasn't lost. */
  readonly returnedS: number | null;
  readonly lease: Lease | null;
  /** It runs for a while and has shown nothing: some worlds begin with the first key. */
  readonly shy: boolean;
}

export function curtainOf(now: Situation): Curtain | null {
  const { record, picture } = now;
  if (now.ending || record.status === "draining") {
    return { words: "Ending", more: now.reachable ? null : UNREACHABLE };
  }
  if (record.status === "queued") return inLine(now);
  if (record.status === "running") {
    const turn = turnOf(now.lease);
    if (picture === "live" || (turn !== null && picture === "still")) return null;
    if (picture === "none") return turn === null ? starting(beginning(now), now) : starting(turn, now);
    return starting(RECONNECTING, now);
  }
  return starting(statusWords(record), now);
}

function beginning({ shy }: Situation): string {
  return shy ? "Press a key to begin" : "The world is starting";
}

function starting(words: string, now: Situation): Curtain {
  if (!now.reachable) return { words: UNREACHABLE, more: "Your place is kept." };
  return { words, more: now.returnedS === null ? null : `${LOST}.` };
}

function inLine(now: Situation): Curtain {
  if (!now.reachable) return { words: UNREACHABLE, more: "Your place is kept." };
  if (now.returnedS === null) return { words: statusWords(now.record), more: null };
  const place = youAre(now.record.queue_position);
  const added = Math.round(now.returnedS);
  return {
    words: LOST,
    more: `${place.charAt(0).toUpperCase()}${place.slice(1)}${added > 0 ? `; ${added} s will be added` : ""}.`,
  };
}
