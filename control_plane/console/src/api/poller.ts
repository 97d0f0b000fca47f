/**
 * When is the session asked for next?
 *
 * At the pace that the caller names, at once after `poke()`, and with a growing pause while nobody
 * answers. Calls never overlap: a poke during a call makes one more call right after it. The time
 * comes from a ticker, so that a hidden tab keeps its place (see `ticker.ts`).
 */

import { backoffMs } from "../client/backoff";
import { ApiFault, asFault } from "../client/fault";
import type { SessionRecord } from "../client/types";
import { ticker } from "./ticker";

/** However many pokes come, calls start at least this far apart. */
const SHORTEST_MS = 200;

export interface PollerEvents {
  read(): Promise<SessionRecord>;
  paceMs(): number;
  onRecord(record: SessionRecord): void;
  onFault(fault: ApiFault): void;
}

export class Poller {
  private dueAt = 0;
  private askedAt = Number.NEGATIVE_INFINITY;
  private busy = false;
  private poked = false;
  private failures = 0;
  private stopTicks: (() => void) | null = null;

  constructor(private readonly events: PollerEvents) {}

  start(): void {
    this.dueAt = 0;
    this.stopTicks ??= ticker.every(() => this.tick());
    this.tick();
  }

  stop(): void {
    this.stopTicks?.();
    this.stopTicks = null;
  }

  /** Ask now: something happened that the record may explain. */
  poke(): void {
    this.poked = true;
    this.tick();
  }

  /** An answer is on its way. */
  get isAsking(): boolean {
    return this.busy;
  }

  private tick(): void {
    if (this.busy || this.stopTicks === null) return;
    const now = performance.now();
    const dueAt = this.poked ? this.askedAt + SHORTEST_MS : this.dueAt;
    if (now >= dueAt) void this.ask(now);
  }

  private async ask(now: number): Promise<void> {
    this.busy = true;
    this.poked = false;
    this.askedAt = now;
    const answer = await this.events.read().catch(asFault);
    this.busy = false;
    // Stopped while the call was on its way: the answer belongs to nobody any more.
    if (this.stopTicks === null) return;
    if (answer instanceof ApiFault) {
      this.failures += 1;
      this.dueAt = performance.now() + backoffMs(this.failures, answer.retryAfterS);
      this.events.onFault(answer);
    } else {
      this.failures = 0;
      this.events.onRecord(answer);
      // Only now: the pace depends on what the record said.
      this.dueAt = performance.now() + this.events.paceMs();
    }
  }
}
