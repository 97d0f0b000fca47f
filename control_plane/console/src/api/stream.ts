/**
 * When has the session changed?
 *
 * The API's event stream says so within moments, so that the record needs to be asked for only now
 * and then. It is a help, not a need: while it isn't open (a proxy that holds streams back, a
 * replica that stops), the page asks at its usual pace. `eventsource` instead of the browser's own,
 * since only that one can carry the session's ticket.
 */

import { EventSource } from "eventsource";
import { backoffMs } from "./poller";
import { ticker } from "./ticker";

/** Whatever the API calls what happened; a place in line comes with its numbers. */
const KINDS = ["queued", "requeued", "assigned", "state", "resumed", "ended"] as const;

export interface Place {
  readonly position: number;
  readonly estimatedWaitS: number | null;
}

export interface StreamEvents {
  /** The session waits, at this place. */
  onPlace(place: Place): void;
  /** Something else happened, or may have: ask. */
  onChange(): void;
}

/** Read what a `queued` event says; null if it names no place. */
export function placeOf(data: string): Place | null {
  let told: unknown;
  try {
    told = JSON.parse(data);
  } catch {
    return null;
  }
  if (typeof told !== "object" || told === null) return null;
  const { position, eta } = told as Record<string, unknown>;
  if (typeof position !== "number") return null;
  return { position, estimatedWaitS: typeof eta === "number" ? eta : null };
}

export class SessionStream {
  private source: EventSource | null = null;
  private failures = 1; // none has been opened yet
  private dueAt = 0;
  private stopTicks: (() => void) | null = null;

  constructor(
    private readonly sessionId: string,
    private readonly bearer: string,
    private readonly events: StreamEvents,
  ) {}

  /** What happens is told right now. */
  get open(): boolean {
    return this.source?.readyState === EventSource.OPEN;
  }

  start(): void {
    this.stopTicks ??= ticker.every(() => this.tick());
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
    const path = `/v1/stream/sessions/${encodeURIComponent(this.sessionId)}/events`;
    const source = new EventSource(new URL(path, location.href), {
      fetch: (url, init) =>
        fetch(url, {
          ...init,
          headers: { ...init.headers, authorization: `Bearer ${this.bearer}` },
        }),
    });
    this.source = source;
    const mine = (act: () => void): void => {
      if (this.source === source) act();
    };
    source.onopen = () => mine(() => (this.failures = 0));
    source.onerror = () => mine(() => this.lost());
    for (const kind of KINDS) {
      source.addEventListener(kind, ({ data }) => mine(() => this.told(kind, String(data))));
    }
  }

  /** A replica that dies takes its streams along; another one knows what happened meanwhile. */
  private lost(): void {
    if (this.failures === 0) this.events.onChange();
    this.failures += 1;
  }

  private told(kind: (typeof KINDS)[number], data: string): void {
    const place = kind === "queued" ? placeOf(data) : null;
    if (place === null) this.events.onChange();
    else this.events.onPlace(place);
  }
}
