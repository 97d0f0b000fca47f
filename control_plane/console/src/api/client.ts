/**
 * How is a replica asked?
 *
 * One function per call, all bounded in time; each either returns the answer or throws an `ApiFault`.
 * Any replica answers any call, so there is nothing to remember between calls.
 */

import { asFault, faultOf, unreachable } from "./fault";
import type { CreateAnswer, Entry, Health, Metadata, SessionRecord, TokenAnswer } from "./types";

const READ_TIMEOUT_MS = 6_000;
/** The server waits up to 10 s for the node's cleanup. */
const END_TIMEOUT_MS = 15_000;
/** An image of 10 MiB on a slow line. */
const CREATE_TIMEOUT_MS = 60_000;

interface Call {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly timeoutMs: number;
  readonly body?: unknown;
  readonly bearer?: string | null;
  readonly headers?: Record<string, string>;
  readonly keepalive?: boolean;
}

async function call<Answer>(what: Call): Promise<Answer> {
  const headers: Record<string, string> = { accept: "application/json", ...what.headers };
  if (what.body !== undefined) headers["content-type"] = "application/json";
  if (what.bearer) headers["authorization"] = `Bearer ${what.bearer}`;
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(what.path, {
      method: what.method,
      headers,
      cache: "no-store",
      signal: AbortSignal.timeout(what.timeoutMs),
      keepalive: what.keepalive ?? false,
      body: what.body === undefined ? null : JSON.stringify(what.body),
    });
    body = await answer.json().catch(() => null);
  } catch (error) {
    throw asFault(error);
  }
  if (!answer.ok) throw faultOf(answer.status, body, answer.headers.get("retry-after"));
  if (body === null) throw unreachable("The answer wasn't JSON.", "bad_answer");
  return body as Answer;
}

function sessionPath(sessionId: string): string {
  return `/v1/stream/sessions/${encodeURIComponent(sessionId)}`;
}

/** The JSON body of a create call; the same entry always gives the same body (idempotency). */
export function createBody(identity: string, entry: Entry): Record<string, unknown> {
  const config: Record<string, unknown> = {};
  if (entry.image !== null) config["image"] = entry.image;
  if (entry.fps !== null) config["fps"] = entry.fps;
  const prompt = entry.prompt.trim();
  return { identity, role: "controller", ...(prompt ? { prompt } : {}), config };
}

export function createSession(
  identity: string,
  entry: Entry,
  idempotencyKey: string,
): Promise<CreateAnswer> {
  return call({
    method: "POST",
    path: "/v1/stream/sessions",
    timeoutMs: CREATE_TIMEOUT_MS,
    body: createBody(identity, entry),
    headers: { "idempotency-key": idempotencyKey },
  });
}

/** Read a session. For a waiting client this is also its sign of life. */
export function readSession(sessionId: string, bearer: string | null): Promise<SessionRecord> {
  return call({ method: "GET", path: sessionPath(sessionId), timeoutMs: READ_TIMEOUT_MS, bearer });
}

export function endSession(sessionId: string, bearer: string): Promise<{ status: string }> {
  return call({
    method: "DELETE",
    path: sessionPath(sessionId),
    timeoutMs: END_TIMEOUT_MS,
    bearer,
    keepalive: true,
  });
}

export function renewController(
  sessionId: string,
  identity: string,
  bearer: string,
): Promise<TokenAnswer> {
  return call({
    method: "POST",
    path: `${sessionPath(sessionId)}/tokens`,
    timeoutMs: READ_TIMEOUT_MS,
    body: { identity, role: "controller" },
    bearer,
  });
}

export function mintViewer(
  sessionId: string,
  identity: string,
  bearer: string,
): Promise<TokenAnswer> {
  return call({
    method: "POST",
    path: `${sessionPath(sessionId)}/tokens`,
    timeoutMs: READ_TIMEOUT_MS,
    body: { identity, role: "viewer" },
    bearer,
  });
}

export function readHealth(): Promise<Health> {
  return call({ method: "GET", path: "/v1/stream/health", timeoutMs: READ_TIMEOUT_MS });
}

export function readMetadata(): Promise<Metadata> {
  return call({ method: "GET", path: "/v1/service/metadata", timeoutMs: READ_TIMEOUT_MS });
}
