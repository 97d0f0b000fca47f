/**
 * What does the operator see now, and how fresh is it?
 *
 * The server sends something every second; what is older than a few is said to be old. A refusal for
 * want of a key stops the feed until there is one.
 */

import { EventFeed } from "../client/event-feed";
import { forgetKey, loadKey, saveKey } from "../memory/key";
import { keyTroubleOfStatus, type KeyTrouble } from "../words/keys";
import { moved } from "./moving";
import type { Moving, Overview } from "./types";

export interface FeedView {
  readonly overview: Overview | null;
  /** Wall time here when the last word came; with `overview.at` it tells the server's time. */
  readonly heardAtMs: number;
  readonly connected: boolean;
  /** Nobody has answered yet, or the key isn't right. */
  readonly keyTrouble: KeyTrouble | null;
  readonly identities: boolean;
}

type Listener = () => void;

export class AdminFeed {
  private feed: EventFeed | null = null;
  private readonly listeners = new Set<Listener>();
  private view: FeedView = {
    overview: null,
    heardAtMs: Date.now(),
    connected: false,
    keyTrouble: null,
    identities: false,
  };

  readonly subscribe = (listener: Listener): Listener => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getView = (): FeedView => this.view;

  start(): void {
    const feed = new EventFeed({
      url: () => new URL(`/v1/admin/events${this.view.identities ? "?identities=1" : ""}`, location.href).href,
      bearer: loadKey,
      kinds: ["overview", "moving"],
      onEvent: (kind, data) => this.heard(kind, JSON.parse(data) as unknown),
      onOpen: () => this.set({ connected: true, keyTrouble: null }),
      onLost: () => this.set({ connected: false }),
      onRefused: (status) => this.refused(status),
    });
    this.feed?.stop();
    this.feed = feed;
    feed.start();
  }

  useKey(key: string): void {
    saveKey(key);
    this.start();
  }

  /** Who people are comes only while somebody wants to know it. */
  showIdentities(identities: boolean): void {
    this.set({ identities });
    this.start();
  }

  /** A call, too, may be the first to hear that the key is no good any more. */
  refusedFor(keyTrouble: KeyTrouble): void {
    this.feed?.stop();
    this.feed = null;
    forgetKey();
    this.set({ keyTrouble, connected: false });
  }

  private refused(status: number): void {
    const trouble = keyTroubleOfStatus(status, loadKey() !== null);
    if (trouble !== null) this.refusedFor(trouble);
  }

  private heard(kind: string, told: unknown): void {
    const { overview } = this.view;
    const heardAtMs = Date.now();
    if (kind === "overview") this.set({ overview: told as Overview, heardAtMs });
    else if (overview !== null) this.set({ overview: moved(overview, told as Moving), heardAtMs });
  }

  private set(change: Partial<FeedView>): void {
    this.view = { ...this.view, ...change };
    this.listeners.forEach((listener) => listener());
  }
}
