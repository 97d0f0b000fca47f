/**
 * Which of this browser's tabs plays the session?
 *
 * The one that holds a lock of the session's name; the browser frees it when the tab closes, and the
 * next one in the queue takes over. Without the Web Locks API (plain http from another machine) each
 * tab believes that it is the one, and the room's own rule decides: the newer one stays.
 */

/** A reload asks before the old page has let go; longer than that means another tab. */
const PATIENCE_MS = 400;

export interface TabEvents {
  onMine(): void;
  onElsewhere(): void;
}

export class OneTab {
  private letGo: (() => void) | null = null;
  private asking: AbortController | null = null;
  private stopped = false;

  constructor(
    private readonly sessionId: string,
    private readonly events: TabEvents,
  ) {}

  claim(): void {
    if (navigator.locks === undefined) {
      this.events.onMine();
      return;
    }
    const patience = setTimeout(() => {
      if (this.letGo === null && !this.stopped) this.events.onElsewhere();
    }, PATIENCE_MS);
    this.queueUp(() => clearTimeout(patience));
  }

  /** Take over from the other tab. */
  steal(): void {
    this.asking?.abort();
    this.asking = null;
    if (navigator.locks === undefined) this.events.onMine();
    else this.request({ steal: true }, () => undefined);
  }

  /** The session ended, or this tab gives it up. */
  release(): void {
    this.stopped = true;
    this.asking?.abort();
    this.letGo?.();
    this.letGo = null;
  }

  private request(options: LockOptions, answered: () => void): void {
    let held = false;
    const hold = (): Promise<void> => {
      answered();
      if (this.stopped) return Promise.resolve();
      held = true;
      return new Promise((letGo) => {
        this.letGo = letGo;
        this.events.onMine();
      });
    };
    navigator.locks.request(`greenroom.${this.sessionId}`, options, hold).catch(() => {
      answered();
      // Given up by ourselves, or never had: only a stolen lock is news.
      if (!held || this.stopped) return;
      this.letGo = null;
      this.events.onElsewhere();
      this.queueUp(() => undefined);
    });
  }

  /** Wait for the lock; it comes when the other tab closes. */
  private queueUp(answered: () => void): void {
    this.asking = new AbortController();
    this.request({ signal: this.asking.signal }, answered);
  }
}
