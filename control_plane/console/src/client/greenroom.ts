/**
 * How does a page get a session, wait for its turn and step onto the stage?
 *
 *     const greenroom = new Greenroom({ apiKey });
 *     const session = await greenroom.create({ identity: "ann", prompt: "a harbour at dusk" });
 *     await session.wait({ onPlace: ({ position }) => say(`${position}. in line`) });
 *     const { livekit_url, token } = await session.join(); // for livekit-client's Room.connect
 *
 * Creating is repeated with one Idempotency-Key until it is answered: a lost answer never costs a
 * place in line, and never makes two sessions.
 */

import { backoffMs, pause } from "./backoff";
import { ApiFault, asFault } from "./fault";
import { call } from "./http";
import { SessionEvents, type Place } from "./session-events";
import type { Ticks } from "./event-feed";
import {
  type CreateAnswer,
  hasEnded,
  type Health,
  isOnStage,
  type Metadata,
  type SessionRecord,
  type SessionRequest,
  type TokenAnswer,
} from "./types";

const READ_TIMEOUT_MS = 6_000;
/** The server waits up to 10 s for the node's cleanup. */
const END_TIMEOUT_MS = 15_000;
/** An image of 10 MiB on a slow line. */
const CREATE_TIMEOUT_MS = 60_000;
/** While events come, the record is read only to be sure; that is a sign of life, too. */
const READ_EVERY_MS = 5_000;

export interface GreenroomOptions {
  /** Without a slash at its end; empty for the page's own origin. */
  readonly baseUrl?: string;
  /** Only for a server that asks for one; the key of a backend has no place in a public page. */
  readonly apiKey?: () => string | null;
  /** What wakes event streams up; a page that plays hidden brings its own. */
  readonly ticks?: Ticks;
}

export interface CreateOptions {
  readonly idempotencyKey?: string;
  /** Gives up: rejects with the signal's reason. The session may have been made all the same. */
  readonly signal?: AbortSignal;
  /** Nobody answered; it is tried again. */
  readonly onUnreachable?: () => void;
}

export interface WaitOptions {
  readonly signal?: AbortSignal;
  readonly onPlace?: (place: Place) => void;
}

export class Greenroom {
  readonly baseUrl: string;
  readonly ticks: Ticks | undefined;
  private readonly apiKey: () => string | null;

  constructor(options: GreenroomOptions = {}) {
    this.baseUrl = options.baseUrl ?? "";
    this.apiKey = options.apiKey ?? (() => null);
    this.ticks = options.ticks;
  }

  /** Create a session; throws an `ApiFault` of any kind but `unreachable`. */
  async create(request: SessionRequest, options: CreateOptions = {}): Promise<Session> {
    const key = options.idempotencyKey ?? crypto.randomUUID();
    for (let failures = 1; ; failures += 1) {
      options.signal?.throwIfAborted();
      const answer = await this.ask(request, key).catch(asFault);
      if (!(answer instanceof ApiFault)) {
        return new Session(this, answer.session_id, answer.session_token, answer);
      }
      if (answer.kind !== "unreachable" || !answer.retryable) throw answer;
      options.onUnreachable?.();
      await pause(backoffMs(failures, answer.retryAfterS), options.signal);
    }
  }

  /** A session that was created before, by this page or another one. */
  session(sessionId: string, sessionToken: string | null): Session {
    return new Session(this, sessionId, sessionToken, null);
  }

  health(): Promise<Health> {
    return call(this.baseUrl, {
      method: "GET",
      path: "/v1/stream/health",
      timeoutMs: READ_TIMEOUT_MS,
    });
  }

  metadata(): Promise<Metadata> {
    return call(this.baseUrl, {
      method: "GET",
      path: "/v1/service/metadata",
      timeoutMs: READ_TIMEOUT_MS,
    });
  }

  private ask(request: SessionRequest, key: string): Promise<CreateAnswer> {
    return call(this.baseUrl, {
      method: "POST",
      path: "/v1/stream/sessions",
      timeoutMs: CREATE_TIMEOUT_MS,
      body: { role: "controller", config: {}, ...request },
      bearer: this.apiKey(),
      headers: { "idempotency-key": key },
    });
  }
}

/** One session. Its token is a durable ticket: whoever has it keeps the session over any reload. */
export class Session {
  constructor(
    private readonly greenroom: Greenroom,
    readonly id: string,
    readonly token: string | null,
    /** What the create call said, with the first room token; null for one that was taken up. */
    readonly created: CreateAnswer | null,
  ) {}

  /** Read how it stands. While it waits, this is also its sign of life. */
  read(): Promise<SessionRecord> {
    return this.call("GET", "", READ_TIMEOUT_MS);
  }

  /** Follow it; `start()` it, and `stop()` it in the end. */
  events(listener: ConstructorParameters<typeof SessionEvents>[1]): SessionEvents {
    const { baseUrl, ticks } = this.greenroom;
    return new SessionEvents({ baseUrl, path: this.path, token: this.token }, listener, ticks);
  }

  /** Wait until it has a stage, or has ended; throws `gone` for a session that nobody knows. */
  async wait({ signal, onPlace }: WaitOptions = {}): Promise<SessionRecord> {
    let wake = new AbortController();
    const events = this.events({
      onPlace: (place) => onPlace?.(place),
      onChange: () => wake.abort(),
    });
    events.start();
    try {
      for (let failures = 0; ; ) {
        signal?.throwIfAborted();
        wake = new AbortController();
        const record = await this.read().catch(asFault);
        if (!(record instanceof ApiFault)) {
          if (hasEnded(record.status) || isOnStage(record.status)) return record;
          failures = 0;
        } else if (record.kind !== "unreachable") {
          throw record;
        } else failures += 1;
        const ms = failures > 0 ? backoffMs(failures, null) : READ_EVERY_MS;
        const either = signal === undefined ? wake.signal : AbortSignal.any([signal, wake.signal]);
        await pause(ms, either).catch(() => undefined);
      }
    } finally {
      events.stop();
    }
  }

  /** A room token that is fresh; *identity* is the controller's, where it is known. */
  join(identity = ""): Promise<TokenAnswer> {
    const body = { role: "controller", ...(identity ? { identity } : {}) };
    return this.call("POST", "/tokens", READ_TIMEOUT_MS, body);
  }

  /** A room token for somebody who only watches. */
  viewer(identity: string): Promise<TokenAnswer> {
    return this.call("POST", "/tokens", READ_TIMEOUT_MS, { identity, role: "viewer" });
  }

  /** Leave the line, or end the show. */
  end(): Promise<{ status: string }> {
    return this.call("DELETE", "", END_TIMEOUT_MS);
  }

  private get path(): string {
    return `/v1/stream/sessions/${encodeURIComponent(this.id)}`;
  }

  private call<Answer>(
    method: "GET" | "POST" | "DELETE",
    below: string,
    timeoutMs: number,
    body?: unknown,
  ): Promise<Answer> {
    return call(this.greenroom.baseUrl, {
      method,
      path: `${this.path}${below}`,
      timeoutMs,
      bearer: this.token,
      keepalive: method === "DELETE",
      ...(body === undefined ? {} : { body }),
    });
  }
}
