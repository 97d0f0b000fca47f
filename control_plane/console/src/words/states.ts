/** Which word and which shape tells a person what is going on? Colour is never the only sign. */

import type { SessionRecord, SessionStatus } from "../client/types";
import type { Lease } from "../stage/protocol";
import { placeInLine } from "./place";
import { turnOf } from "./turn";

export type Tone = "live" | "starting" | "waiting" | "ended" | "attention";

export const SHAPES: Readonly<Record<Tone, string>> = {
  live: "●",
  starting: "◐",
  waiting: "○",
  ended: "■",
  attention: "▲",
};

export interface Sign {
  readonly tone: Tone;
  readonly words: string;
}

export const UNREACHABLE = "Can't reach the stage. Retrying…";
export const RECONNECTING = "Reconnecting…";

const STATUS_WORDS: Readonly<Record<SessionStatus, string>> = {
  queued: "In line",
  assigned: "A stage is free, setting up",
  joining_room: "A stage is free, setting up",
  starting_pipeline: "The world is starting",
  running: "You're on",
  draining: "Ending",
  closed: "Ended",
  expired: "Ended",
  failed: "Ended",
};

export function statusWords(record: SessionRecord): string {
  if (record.status === "queued" && record.queue_position !== null) {
    return placeInLine(record.queue_position);
  }
  return STATUS_WORDS[record.status];
}

/** What the picture does: no real frame yet, real frames arriving, or a still last one. */
export type Picture = "none" | "live" | "still";

/** The sign in the top bar. `running` without a real frame is still a start for the person. */
export function signOf(record: SessionRecord, picture: Picture, lease: Lease | null = null): Sign {
  switch (record.status) {
    case "queued":
      return { tone: "waiting", words: statusWords(record) };
    case "running":
      if (picture === "live") return { tone: "live", words: STATUS_WORDS.running };
      if (turnOf(lease) !== null) return { tone: "waiting", words: "Waiting for a turn" };
      if (picture === "still") return { tone: "attention", words: RECONNECTING };
      return { tone: "starting", words: STATUS_WORDS.starting_pipeline };
    case "assigned":
    case "joining_room":
    case "starting_pipeline":
      return { tone: "starting", words: STATUS_WORDS[record.status] };
    case "draining":
    case "closed":
    case "expired":
    case "failed":
      return { tone: "ended", words: STATUS_WORDS[record.status] };
  }
}
