/** How does this page reach its own server? With the key that was typed in, if one was needed. */

import { Greenroom } from "../client/greenroom";
import type { SessionRequest } from "../client/types";
import { loadKey } from "../memory/key";
import { ticker } from "./ticker";
import type { Entry } from "../player/view";

export const greenroom = new Greenroom({
  apiKey: loadKey,
  ticks: (listener) => ticker.every(listener),
});

/** What is asked for; the same entry always gives the same body (idempotency). */
export function requestOf(identity: string, entry: Entry): SessionRequest {
  const config: Record<string, unknown> = {};
  if (entry.image !== null) config["image"] = entry.image;
  if (entry.fps !== null) config["fps"] = entry.fps;
  const prompt = entry.prompt.trim();
  return { identity, ...(prompt ? { prompt } : {}), config };
}
