/**
 * How does somebody watch who has only a link?
 *
 * The address names the session and, after the #, a viewer's token, which therefore never reaches a
 * server log. The record says whose picture counts, as for the player; a closed server doesn't show
 * it to viewers, then it's the room's latest worker. There's nothing to control.
 */

import { greenroom } from "../api/greenroom";
import { Patience } from "../api/patience";
import { Poller } from "../api/poller";
import { ticker } from "../api/ticker";
import { hasEnded, isOnStage, type SessionRecord } from "../client/types";
import { type Lost, type Sound, Stage } from "../stage/stage";
import type { Picture } from "../words/states";
import type { WatchAddress } from "./address";

const REJOIN_MS = 2_000;
/** So many joins in a row that fail while the session is on stage: the token is no good any more. */
const JOINS = 4;

export type Trouble = "gone" | "over" | "old_link" | "open_elsewhere";

export interface WatchView {
  readonly record: SessionRecord | null;
  readonly reachable: boolean;
  readonly picture: Picture;
  readonly fps: number;
  readonly viewers: number;
  readonly blocked: boolean;
  readonly sound: Sound;
  readonly trouble: Trouble | null;
}

export class Watcher {
  readonly stage: Stage;
  private readonly poller: Poller;
  private readonly patience = new Patience();
  private readonly listeners = new Set<() => void>();
  private joining = false;
  /** Where the room is, once the API has refused to tell more. */
  private roomUrl: string | null = null;
  private hasSeen = false;
  private joinFailures = 0;
  private joinDueAt = 0;
  private view: WatchView = {
    record: null,
    reachable: true,
    picture: "none",
    fps: 0,
    viewers: 0,
    blocked: false,
    sound: "none",
    trouble: null,
  };

  constructor(private readonly address: WatchAddress) {
    this.stage = new Stage(address.sessionId, {
      onStatus: (status) => {
        if (status.type !== "frames") this.poller.poke();
      },
      onHint: () => this.poller.poke(),
      onWorker: () => undefined,
      onBlocked: (blocked) => this.set({ blocked }),
      onSound: (sound) => this.set({ sound }),
      onLost: (why) => this.onLost(why),
    });
    this.poller = new Poller({
      read: () => greenroom.session(address.sessionId, null).read(),
      paceMs: () => (this.view.picture === "live" ? 2_000 : 1_000),
      onRecord: (record) => this.onRecord(record),
      onFault: (fault) => {
        if (fault.kind === "denied") {
          void this.watchTheRoom();
          return;
        }
        const known = this.view.record !== null;
        const gone = fault.kind === "gone" && this.patience.missing(performance.now(), known);
        if (gone || fault.kind === "invalid") this.finish("gone");
        else this.set({ reachable: false });
      },
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getView = (): WatchView => this.view;

  start(): void {
    if (this.address.token === "") {
      this.set({ trouble: "old_link" });
      return;
    }
    this.poller.start();
    ticker.every(() => this.tick());
  }

  /** After the link was opened elsewhere. */
  watchHere(): void {
    this.set({ trouble: null });
    this.joinDueAt = 0;
    this.tick();
  }

  private set(change: Partial<WatchView>): void {
    this.view = { ...this.view, ...change };
    this.listeners.forEach((listener) => listener());
  }

  private onRecord(record: SessionRecord): void {
    this.patience.found();
    this.set({ record, reachable: true });
    if (hasEnded(record.status)) {
      this.finish(null);
      return;
    }
    const { node_id: nodeId, epoch, status } = record;
    const owned = isOnStage(status) && nodeId !== null && epoch !== null;
    this.stage.follow(owned ? { nodeId, epoch } : null);
    this.tick();
  }

  /** A closed server: what's left is the room, which the link is good for. */
  private async watchTheRoom(): Promise<void> {
    this.poller.stop();
    const metadata = await greenroom.metadata().catch(() => null);
    this.roomUrl = metadata?.livekit_url ?? null;
    if (this.roomUrl === null) {
      this.set({ reachable: false });
      setTimeout(() => void this.watchTheRoom(), REJOIN_MS);
      return;
    }
    this.set({ reachable: true });
    this.stage.follow("latest");
    this.tick();
  }

  private onLost(why: Lost): void {
    if (why === "deleted" && this.roomUrl !== null) {
      this.finish("over"); // joining again would only make the room anew
      return;
    }
    this.joinDueAt = performance.now() + REJOIN_MS;
    if (why === "duplicate") this.set({ trouble: "open_elsewhere" });
    this.poller.poke();
  }

  private finish(trouble: Trouble | null): void {
    this.poller.stop();
    this.stage.leave();
    this.set({ trouble });
  }

  private tick(): void {
    const now = performance.now();
    const { record, trouble } = this.view;
    if (document.hidden) this.stage.pulse.assume(now);
    const onStage = record !== null && isOnStage(record.status);
    const url = onStage ? record.livekit_url : this.roomUrl;
    if (url && trouble === null && !this.stage.joined && !this.joining && now >= this.joinDueAt) {
      void this.join(url);
    }
    const picture = this.stage.pulse.picture(now);
    if (picture === "live") this.hasSeen = true;
    this.set({
      picture,
      fps: Math.round(this.stage.pulse.fps(now)),
      viewers: this.stage.viewers,
    });
  }

  private async join(url: string): Promise<void> {
    this.joining = true;
    try {
      await this.stage.join(url, this.address.token);
      this.joinFailures = 0;
    } catch {
      this.joinFailures += 1;
      this.joinDueAt = performance.now() + REJOIN_MS;
      if (this.joinFailures >= JOINS) this.finish(this.hasSeen ? "over" : "old_link");
    } finally {
      this.joining = false;
    }
  }
}
