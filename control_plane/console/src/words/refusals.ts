/** What is said on the start card when the stage didn't take the request? */

import type { ApiFault } from "../client/fault";

export interface Refusal {
  readonly words: string;
  /** Seconds until another try makes sense; null when waiting won't help. */
  readonly retryAfterS: number | null;
  readonly code: string;
}

export function refusalOf(fault: ApiFault): Refusal {
  const { code } = fault;
  if (fault.kind !== "busy") return { words: fault.message, retryAfterS: null, code };
  const words = code === "no_idle_worker" ? "All stages are taken." : "The line is full.";
  return { words, retryAfterS: fault.retryAfterS ?? 5, code };
}
