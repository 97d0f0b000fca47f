/** What does the player page know and show? One immutable value; only `Player` makes new ones. */

import type { SessionRecord } from "../client/types";
import type { Lease } from "../stage/protocol";
import type { Sound } from "../stage/stage";
import type { Ending } from "../words/endings";
import type { KeyTrouble } from "../words/keys";
import type { Refusal } from "../words/refusals";
import type { Picture } from "../words/states";

export type Phase =
  | "start" // the card with the prompt
  | "entering" // asked, not answered yet
  | "resuming" // a remembered session, not read yet
  | "waiting" // in line, never been on stage
  | "stage" // a slot is held, or was and will be again
  | "ended";

export interface Numbers {
  readonly fps: number;
  readonly rttMs: number | null;
  readonly viewers: number;
  readonly playedS: number;
}

/** Back in line after a stage was lost. */
export interface Returned {
  readonly sinceMs: number;
}

export interface Final {
  readonly ending: Ending;
  readonly sessionId: string;
  readonly code: string;
  readonly error: string | null;
  /** Zero for somebody who never saw a frame. */
  readonly playedS: number;
}

/** What the start card collects; it is sent as it stands when the same world is played again. */
export interface Entry {
  readonly prompt: string;
  /** Data URL, or null for none. */
  readonly image: string | null;
  /** Frames a second, or null for the service's own default. */
  readonly fps: number | null;
}

export interface View {
  readonly phase: Phase;
  readonly entry: Entry;
  readonly refusal: Refusal | null;
  /** The server wants a key before anybody enters. */
  readonly keyTrouble: KeyTrouble | null;
  /** One line on the start card. */
  readonly notice: string | null;
  readonly record: SessionRecord | null;
  readonly enteredAtMs: number;
  /** 0 to 1, never falls. */
  readonly progress: number;
  /** The API answered the last call. */
  readonly reachable: boolean;
  /** Another tab or device plays this session. */
  readonly elsewhere: boolean;
  /** The person asked for the end; it isn't confirmed yet. */
  readonly ending: boolean;
  readonly returned: Returned | null;
  readonly picture: Picture;
  readonly numbers: Numbers;
  readonly held: readonly string[];
  readonly hasPressed: boolean;
  readonly blocked: boolean;
  readonly sound: Sound;
  /** Wall time at which the session's time is up, once the end is near. */
  readonly upAtMs: number | null;
  /** Wall time at which this stage closes and the session moves to another one. */
  readonly movesAtMs: number | null;
  /** Whose turn it is on a shared model; null where sessions don't take turns. */
  readonly lease: Lease | null;
  /** It runs for a while and has shown nothing yet. */
  readonly shy: boolean;
  readonly final: Final | null;
}

export const EMPTY_ENTRY: Entry = { prompt: "", image: null, fps: null };

/** What is known before a session begins, and again when the next one does. */
export const FRESH = {
  refusal: null,
  keyTrouble: null,
  notice: null,
  record: null,
  enteredAtMs: 0,
  progress: 0,
  reachable: true,
  elsewhere: false,
  ending: false,
  returned: null,
  picture: "none",
  numbers: { fps: 0, rttMs: null, viewers: 0, playedS: 0 },
  held: [],
  hasPressed: false,
  blocked: false,
  sound: "none",
  upAtMs: null,
  movesAtMs: null,
  lease: null,
  shy: false,
  final: null,
} satisfies Omit<View, "phase" | "entry">;
