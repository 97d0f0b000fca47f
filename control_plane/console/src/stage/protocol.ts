/**
 * What is said in the room, in both directions? No I/O here.
 *
 * Outwards the envelope `{version, session_id, type, payload, seq?}` on `tf.control`; inwards what
 * the worker, or a replica, says on `tf.status`. Unknown status types are ignored.
 */

export const CONTROL_TOPIC = "tf.control";
export const STATUS_TOPIC = "tf.status";

export type ControlType = "control_state" | "stop";

export function encodeControl(
  sessionId: string,
  type: ControlType,
  payload: Record<string, unknown>,
  seq?: number,
): Uint8Array<ArrayBuffer> {
  const envelope = { version: 1, session_id: sessionId, type, payload, ...(seq ? { seq } : {}) };
  return new TextEncoder().encode(JSON.stringify(envelope));
}

export type StageStatus =
  | { readonly type: "first_frame" }
  | { readonly type: "frames" } // metadata of a chunk whose frames have been played
  | { readonly type: "control_ack"; readonly seq: number }
  | { readonly type: "expiring"; readonly inS: number }
  // The stage closes then and the session moves; null: it stays after all.
  | { readonly type: "draining"; readonly inS: number | null }
  | { readonly type: "lease"; readonly lease: Lease }
  | { readonly type: "closed"; readonly reason: string | null }
  | { readonly type: "changed" }; // ask the API: returned, resumed, ending, new owner

/** Several sessions take turns on one model; whose turn is it? */
export type Lease =
  | { readonly state: "granted" }
  | { readonly state: "queued"; readonly position: number | null }
  | { readonly state: "parked" }; // had its turn and was idle: it plays again with the next key

const CHANGES: readonly unknown[] = [
  "requeued",
  "resumed",
  "owner_changed",
  "draining",
  "done",
  "queued",
];

/** Read one message; null for what isn't ours to act upon. */
export function parseStatus(payload: Uint8Array, sessionId: string): StageStatus | null {
  let body: Record<string, unknown>;
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(payload));
    if (typeof parsed !== "object" || parsed === null) return null;
    body = parsed as Record<string, unknown>;
  } catch {
    return null;
  }
  if (body["session_id"] !== undefined && body["session_id"] !== sessionId) return null;
  return statusOf(body);
}

function statusOf(body: Record<string, unknown>): StageStatus | null {
  const type = body["type"];
  if (type === "first_frame") return { type };
  if (type === "chunk") {
    if (typeof body["index"] === "number" && body["index"] >= 0) return { type: "frames" };
    return leaseOf(body["data"]);
  }
  if (type === "control_ack") {
    return typeof body["seq"] === "number" ? { type, seq: body["seq"] } : null;
  }
  if (type === "expiring") {
    return typeof body["in_s"] === "number" ? { type, inS: body["in_s"] } : null;
  }
  if (type === "draining" && "in_s" in body) {
    return { type, inS: typeof body["in_s"] === "number" ? body["in_s"] : null };
  }
  if (type === "closed") {
    return { type, reason: typeof body["reason"] === "string" ? body["reason"] : null };
  }
  return CHANGES.includes(type) ? { type: "changed" } : null;
}

function leaseOf(data: unknown): StageStatus | null {
  if (typeof data !== "object" || data === null) return null;
  const { stage, queue_position: position } = data as Record<string, unknown>;
  switch (stage) {
    case "lease_granted":
      return { type: "lease", lease: { state: "granted" } };
    case "lease_parked":
      return { type: "lease", lease: { state: "parked" } };
    case "lease_queued": {
      const place = typeof position === "number" ? position : null;
      return { type: "lease", lease: { state: "queued", position: place } };
    }
    default:
      return null;
  }
}
