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
  | { readonly type: "closed"; readonly reason: string | null }
  | { readonly type: "changed" }; // ask the API: returned, resumed, ending, new owner

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
    return typeof body["index"] === "number" && body["index"] >= 0 ? { type: "frames" } : null;
  }
  if (type === "control_ack") {
    return typeof body["seq"] === "number" ? { type, seq: body["seq"] } : null;
  }
  if (type === "expiring") {
    return typeof body["in_s"] === "number" ? { type, inS: body["in_s"] } : null;
  }
  if (type === "closed") {
    return { type, reason: typeof body["reason"] === "string" ? body["reason"] : null };
  }
  return CHANGES.includes(type) ? { type: "changed" } : null;
}
