/**
 * Is the picture live, still, or not there yet; at which rate; and for how long in all?
 *
 * Pure: frames and the time are handed in. A publisher sends black frames until its first real one,
 * so only real frames count. A hidden tab paints nothing, which says nothing about the stage.
 */

import type { Picture } from "../words/states";

/** Real frames missing for this long: the picture is still. */
export const STILL_AFTER_MS = 1_000;
const RATE_WINDOW_MS = 2_000;

export class Pulse {
  /** Real frames since the page was loaded. */
  frames = 0;
  private lastAt: number | null = null;
  private interrupted = false;
  private readonly recent: { at: number; frames: number }[] = [];
  private playedMs: number;
  private countedAt: number | null = null;

  constructor(playedBeforeMs = 0) {
    this.playedMs = playedBeforeMs;
  }

  /** *count* real frames were painted up to *now*. */
  frame(now: number, count = 1): void {
    this.frames += count;
    this.lastAt = now;
    this.interrupted = false;
    this.recent.push({ at: now, frames: count });
  }

  /** The track is gone: whatever is shown now is a still. */
  interrupt(): void {
    this.interrupted = true;
    this.recent.length = 0;
  }

  /** The page can't see frames now (hidden tab): keep what was true before. */
  assume(now: number): void {
    if (this.lastAt !== null && !this.interrupted) this.lastAt = now;
  }

  picture(now: number): Picture {
    if (this.lastAt === null) return "none";
    return this.interrupted || now - this.lastAt >= STILL_AFTER_MS ? "still" : "live";
  }

  /** Milliseconds since the last real frame, 0 before the first. */
  missingMs(now: number): number {
    return this.lastAt === null ? 0 : now - this.lastAt;
  }

  fps(now: number): number {
    while (this.recent[0] !== undefined && now - this.recent[0].at > RATE_WINDOW_MS) {
      this.recent.shift();
    }
    const first = this.recent[0];
    if (first === undefined || this.picture(now) !== "live") return 0;
    // The first entry only marks where the window begins; its own frames came before it.
    const frames = this.recent.reduce((sum, entry) => sum + entry.frames, -first.frames);
    const spanMs = (this.recent.at(-1)?.at ?? now) - first.at;
    return spanMs > 0 ? (frames * 1_000) / spanMs : 0;
  }

  /** Advance the play clock, which only runs while the picture is live; returns milliseconds. */
  playClockMs(now: number): number {
    if (this.countedAt !== null && this.picture(now) === "live") {
      this.playedMs += now - this.countedAt;
    }
    this.countedAt = now;
    return this.playedMs;
  }
}
