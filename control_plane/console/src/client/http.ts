/**
 * How is one call made?
 *
 * Bounded in time; it either returns the answer or throws an `ApiFault`. Any replica answers any
 * call, so there is nothing to remember between calls.
 */

import { asFault, faultOf, unreachable } from "./fault";

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly timeoutMs: number;
  readonly body?: unknown;
  /** An API key or a session's token. */
  readonly bearer?: string | null;
  readonly headers?: Record<string, string>;
  /** The page may be closed meanwhile. */
  readonly keepalive?: boolean;
}

export async function call<Answer>(baseUrl: string, what: Call): Promise<Answer> {
  const headers: Record<string, string> = { accept: "application/json", ...what.headers };
  if (what.body !== undefined) headers["content-type"] = "application/json";
  if (what.bearer) headers["authorization"] = `Bearer ${what.bearer}`;
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(`${baseUrl}${what.path}`, {
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
