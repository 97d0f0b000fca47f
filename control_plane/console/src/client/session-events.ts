/**
 * When has a session changed?
 *
 * The API's event stream says so within moments, so that the record needs to be asked for only now
 * and then. It is a help, not a need: while it isn't open (a proxy that holds streams back, a
 * replica that stops), the record has to be asked for more often.
 */

import { EventFeed, type Ticks } from "./event-feed";

/** Whatever the API calls what happened; a place in line comes with its numbers. */
const KINDS = ["queued", "requeued", "assigned", "state", "resumed", "ended"] as const;

export interface Place {
  readonly position: number;
  readonly estimatedWaitS: number | null;
}

export interface SessionListener {
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

export interface Where {
  readonly baseUrl: string;
  /** Of the session. */
  readonly path: string;
  readonly token: string | null;
}

export class SessionEvents {
  private readonly feed: EventFeed;
  private wasOpen = false;

  constructor(where: Where, listener: SessionListener, ticks?: Ticks) {
    this.feed = new EventFeed(
      {
        url: () => new URL(`${where.baseUrl}${where.path}/events`, globalThis.location?.href).href,
        bearer: () => where.token,
        kinds: KINDS,
        onOpen: () => (this.wasOpen = true),
        // A replica that dies takes its streams along; another one knows what happened meanwhile.
        onLost: () => {
          if (this.wasOpen) listener.onChange();
          this.wasOpen = false;
        },
        onEvent: (kind, data) => {
          const place = kind === "queued" ? placeOf(data) : null;
          if (place === null) listener.onChange();
          else listener.onPlace(place);
        },
      },
      ticks,
    );
  }

  /** What happens is told right now. */
  get open(): boolean {
    return this.feed.open;
  }

  start(): void {
    this.feed.start();
  }

  stop(): void {
    this.feed.stop();
  }
}
