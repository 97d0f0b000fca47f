/** How long does a control message take until the worker acknowledges it? Pure. */

const KEPT = 5;
/** Messages that nobody acknowledged are forgotten beyond this many. */
const PENDING = 64;

export class RoundTrip {
  private readonly sentAt = new Map<number, number>();
  private readonly samples: number[] = [];

  sent(seq: number, now: number): void {
    this.sentAt.set(seq, now);
    const oldest = this.sentAt.keys().next();
    if (this.sentAt.size > PENDING && !oldest.done) this.sentAt.delete(oldest.value);
  }

  acknowledged(seq: number, now: number): void {
    const sentAt = this.sentAt.get(seq);
    if (sentAt === undefined) return;
    this.sentAt.delete(seq);
    this.samples.push(now - sentAt);
    if (this.samples.length > KEPT) this.samples.shift();
  }

  /** The median of the last five, or null before the first answer. */
  get ms(): number | null {
    const sorted = [...this.samples].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? null;
  }
}
