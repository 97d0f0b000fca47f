/**
 * How is a stream of server-sent events followed for as long as it is wanted?
 *
 * After a cut the stream is opened again by itself, on whichever replica answers, and goes on behind
 * the last id that came; after a refusal it is opened anew after a growing pause. `eventsource`
 * instead of the browser's own, since only that one can carry a credential.
 */

import { type ErrorEvent, EventSource } from "eventsource";
import { backoffMs } from "./backoff";

export interface FeedOptions {
  /** The whole address. */
  url(): string;
  /** An API key or a session's token; asked for at each try. */
  bearer(): string | null;
  /** The events that are wanted, by name. */
  readonly kinds: readonly string[];
  onEvent(kind: string, data: string): void;
  onOpen?(): void;
  /** The first failure after the stream was open, and each one after that. */
  onLost?(failures: number): void;
  /** The server answered with this status instead of a stream. */
  onRefused?(status: number): void;
}

/** Calls a listener a few times a second until the returned function is called. */
export type Ticks = (listener: () => void) => () => void;

const TICK_MS = 250;

const timerTicks: Ticks = (listener) => {
  const timer = setInterval(listener, TICK_MS);
  return () => clearInterval(timer);
};

export class EventFeed {
  private source: EventSource | null = null;
  private failures = 1; // none has been opened yet
  private dueAt = 0;
  private lastId = "";
  private stopTicks: (() => void) | null = null;

  constructor(
    private readonly options: FeedOptions,
    private readonly ticks: Ticks = timerTicks,
  ) {}

  /** What happens is told right now. */
  get open(): boolean {
    return this.source?.readyState === EventSource.OPEN;
  }

  start(): void {
    this.stopTicks ??= this.ticks(() => this.tick());
    this.tick();
  }

  stop(): void {
    this.stopTicks?.();
    this.stopTicks = null;
    this.source?.close();
    this.source = null;
  }

  /** It comes back by itself after a cut, but not after a refusal: then it's opened anew. */
  private tick(): void {
    if (this.source !== null && this.source.readyState !== EventSource.CLOSED) return;
    if (this.stopTicks === null || performance.now() < this.dueAt) return;
    this.dueAt = performance.now() + backoffMs(this.failures, null);
    this.connect();
  }

  private connect(): void {
    const source = new EventSource(this.options.url(), {
      fetch: (url, init) => fetch(url, { ...init, headers: this.headers(init.headers) }),
    });
    this.source = source;
    const mine = (act: () => void): void => {
      if (this.source === source) act();
    };
    source.onopen = () =>
      mine(() => {
        this.failures = 0;
        this.options.onOpen?.();
      });
    source.onerror = (error) => mine(() => this.lost(error));
    for (const kind of this.options.kinds) {
      source.addEventListener(kind, ({ data, lastEventId }) =>
        mine(() => {
          if (lastEventId) this.lastId = lastEventId;
          this.options.onEvent(kind, String(data));
        }),
      );
    }
  }

  private headers(of: Record<string, string>): Record<string, string> {
    const bearer = this.options.bearer();
    return {
      ...of,
      ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}),
      ...(bearer ? { authorization: `Bearer ${bearer}` } : {}),
    };
  }

  private lost(error: ErrorEvent): void {
    this.failures += 1;
    if (error.code !== undefined && error.code >= 400) this.options.onRefused?.(error.code);
    this.options.onLost?.(this.failures);
  }
}
