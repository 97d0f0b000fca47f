/** What does somebody read who only watches? Pure. */

import type { SessionRecord } from "../client/types";
import type { Trouble } from "../watch/watcher";
import type { Curtain } from "./curtain";
import { placeInLine } from "./place";
import { type Picture, RECONNECTING, type Sign, UNREACHABLE } from "./states";

export interface WatchSituation {
  readonly record: SessionRecord | null;
  readonly picture: Picture;
  readonly reachable: boolean;
  readonly trouble: Trouble | null;
}

const TROUBLES: Readonly<Record<Trouble, Curtain>> = {
  over: { words: "The show is over", more: "Thank you for watching." },
  gone: { words: "There is no such show", more: "It is long over, or the link is incomplete." },
  old_link: { words: "This link no longer works", more: "Ask the player for a new one." },
  open_elsewhere: {
    words: "This link is open in another place",
    more: "It is for one person at a time.",
  },
};

export function watchCurtain(now: WatchSituation): Curtain | null {
  const { record, picture, trouble } = now;
  if (trouble !== null) return TROUBLES[trouble];
  if (record === null) {
    if (now.picture === "live") return null;
    if (now.picture === "still") return { words: RECONNECTING, more: null };
    return { words: now.reachable ? "Joining…" : UNREACHABLE, more: null };
  }
  switch (record.status) {
    case "closed":
    case "expired":
    case "failed":
      return { words: "The show is over", more: "Thank you for watching." };
    case "draining":
      return { words: "The show is ending", more: null };
    case "queued": {
      const place = record.queue_position;
      const where = place === null ? "in line" : placeInLine(place);
      return { words: `The player is ${where}`, more: "The picture comes by itself." };
    }
    default:
      if (picture === "live") return null;
      if (!now.reachable) return { words: UNREACHABLE, more: null };
      return { words: picture === "none" ? "The world is starting" : RECONNECTING, more: null };
  }
}

export function watchSign(now: WatchSituation): Sign {
  const curtain = watchCurtain(now);
  if (curtain === null) return { tone: "live", words: "Watching" };
  const ended = now.record !== null && ["closed", "expired", "failed"].includes(now.record.status);
  if (ended) return { tone: "ended", words: "Watching" };
  if (now.trouble !== null || now.picture === "still") {
    return { tone: "attention", words: "Watching" };
  }
  return { tone: now.record?.status === "queued" ? "waiting" : "starting", words: "Watching" };
}
