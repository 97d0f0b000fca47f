/**
 * What does it mean that a call failed, and may it be tried again?
 *
 * The pages act on `kind`; `code` and the status only show up under "Details".
 */

export type FaultKind =
  | "unreachable" // nobody answered, or 5xx: nothing is lost, the same call may be repeated
  | "busy" // 429: no stage and no place in line
  | "invalid" // the request itself must change
  | "denied" // a token is missing or for something else
  | "gone" // there is no such session
  | "conflict"; // the session is in another state than we thought

export interface FaultFacts {
  readonly kind: FaultKind;
  /** A sentence for people. */
  readonly message: string;
  /** Stable word; for a refusal for want of room the compatible one (queue_full, no_idle_worker). */
  readonly code: string;
  readonly retryable: boolean;
  readonly retryAfterS: number | null;
}

export class ApiFault extends Error implements FaultFacts {
  readonly kind: FaultKind;
  readonly code: string;
  readonly retryable: boolean;
  readonly retryAfterS: number | null;

  constructor(facts: FaultFacts) {
    super(facts.message);
    this.name = "ApiFault";
    this.kind = facts.kind;
    this.code = facts.code;
    this.retryable = facts.retryable;
    this.retryAfterS = facts.retryAfterS;
  }
}

export function kindOfStatus(status: number): FaultKind {
  if (status >= 500) return "unreachable";
  if (status === 429) return "busy";
  if (status === 404 || status === 410) return "gone";
  if (status === 409) return "conflict";
  if (status === 401 || status === 403) return "denied";
  return "invalid";
}

/** Build the fault of an answer from its problem details; *body* may be anything. */
export function faultOf(status: number, body: unknown, retryAfter: string | null): ApiFault {
  const problem: Record<string, unknown> =
    typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const text = (name: string): string | null =>
    typeof problem[name] === "string" ? problem[name] : null;
  const kind = kindOfStatus(status);
  const seconds = retryAfter === null ? Number.NaN : Number.parseFloat(retryAfter);
  const code = (kind === "busy" ? text("detail") : null) ?? text("code") ?? `http_${status}`;
  return new ApiFault({
    kind,
    message: text("message") ?? text("detail") ?? `The server answered ${status}.`,
    code,
    retryable: problem["retryable"] !== false && (kind === "unreachable" || kind === "busy"),
    retryAfterS: Number.isFinite(seconds) ? Math.max(1, Math.ceil(seconds)) : null,
  });
}

export function unreachable(message: string, code: string): ApiFault {
  return new ApiFault({ kind: "unreachable", message, code, retryable: true, retryAfterS: null });
}

export function asFault(error: unknown): ApiFault {
  return error instanceof ApiFault ? error : unreachable("Nobody answered.", "network");
}
