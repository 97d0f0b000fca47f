/**
 * What does this browser remember, so that a reload keeps the session and the place in line?
 *
 * One session per browser. The `session_token` is the durable ticket; it stays here and never enters
 * an address. Storage may be missing or hold anything, so all reads are checked.
 */

import type { Entry } from "../player/view";

const PLACE_KEY = "greenroom.place";
const ASKING_KEY = "greenroom.asking";
/** A request with a larger body (an image) isn't kept over a reload. */
const MAX_ASKING_CHARS = 1_000_000;

export interface Place {
  readonly sessionId: string;
  readonly sessionToken: string;
  /** Empty for a session that somebody else made. */
  readonly identity: string;
  readonly livekitUrl: string;
  readonly enteredAtMs: number;
  readonly firstPosition: number;
  readonly playedMs: number;
  readonly prompt: string;
  readonly fps: number | null;
}

/** A create call that hasn't been answered; it is repeated with the same key. */
export interface Asking {
  readonly key: string;
  readonly identity: string;
  readonly entry: Entry;
}

function read(storage: () => Storage, key: string): Record<string, unknown> | null {
  try {
    const parsed: unknown = JSON.parse(storage().getItem(key) ?? "null");
    return typeof parsed === "object" ? (parsed as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

function write(storage: () => Storage, key: string, value: unknown): void {
  try {
    if (value === null) storage().removeItem(key);
    else storage().setItem(key, JSON.stringify(value));
  } catch {
    // Private mode or a full store: the session goes on, only a reload will lose it.
  }
}

const lasting = (): Storage => localStorage;
const ofThisTab = (): Storage => sessionStorage;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const count = (value: unknown): number => (Number.isFinite(value) ? Number(value) : 0);

export function loadPlace(): Place | null {
  const found = read(lasting, PLACE_KEY);
  if (!text(found?.["sessionId"]) || !text(found?.["sessionToken"])) return null;
  return {
    sessionId: text(found?.["sessionId"]),
    sessionToken: text(found?.["sessionToken"]),
    identity: text(found?.["identity"]),
    livekitUrl: text(found?.["livekitUrl"]),
    enteredAtMs: count(found?.["enteredAtMs"]),
    firstPosition: count(found?.["firstPosition"]),
    playedMs: count(found?.["playedMs"]),
    prompt: text(found?.["prompt"]),
    fps: count(found?.["fps"]) || null,
  };
}

export function savePlace(place: Place): void {
  write(lasting, PLACE_KEY, place);
}

/** Forget this session, unless another tab has begun a new one meanwhile. */
export function forgetPlace(sessionId: string): void {
  if (loadPlace()?.sessionId === sessionId) write(lasting, PLACE_KEY, null);
}

export function loadAsking(): Asking | null {
  const found = read(ofThisTab, ASKING_KEY);
  const entry = found?.["entry"] as Record<string, unknown> | null | undefined;
  if (!text(found?.["key"]) || !text(found?.["identity"]) || typeof entry !== "object") return null;
  return {
    key: text(found?.["key"]),
    identity: text(found?.["identity"]),
    entry: {
      prompt: text(entry?.["prompt"]),
      image: text(entry?.["image"]) || null,
      fps: count(entry?.["fps"]) || null,
    },
  };
}

export function saveAsking(asking: Asking | null): void {
  const large = (asking?.entry.image?.length ?? 0) > MAX_ASKING_CHARS;
  write(ofThisTab, ASKING_KEY, large ? null : asking);
}
