/** What is said where a key is needed? Pure. */

import type { ApiFault } from "../client/fault";

export type KeyTrouble = "missing" | "wrong" | "not_allowed" | "too_often";

/** Whether another key would help; null for any other fault. */
export function keyTroubleOf(fault: ApiFault): KeyTrouble | null {
  switch (fault.code) {
    case "no_credentials":
      return "missing";
    case "bad_api_key":
      return "wrong";
    case "scope_missing":
      return "not_allowed";
    default:
      return null;
  }
}

/** What a refused stream says of the key: there only the status is known. */
export function keyTroubleOfStatus(status: number, hasKey: boolean): KeyTrouble | null {
  if (status === 401) return hasKey ? "wrong" : "missing";
  if (status === 403) return "not_allowed";
  return status === 429 && hasKey ? "too_often" : null;
}

const SENTENCES: Readonly<Record<KeyTrouble, string | null>> = {
  missing: null,
  wrong: "This key isn't known here. Check it, or ask who runs this server for another one.",
  not_allowed: "This key is right, but it may not do this. Ask for one that may.",
  too_often: "Too many wrong keys came from here. Wait a minute, then try again.",
};

/** What was wrong with the last key; null before one was tried. */
export function keySentence(trouble: KeyTrouble): string | null {
  return SENTENCES[trouble];
}
