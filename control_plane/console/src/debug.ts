/** What may a test, or somebody at the browser's console, read of this page? Nothing to change. */

export interface Debug {
  readonly state: string | null;
  readonly picture: string;
  readonly worker: string | null;
  /** Real frames painted since the page was loaded. */
  readonly frames: number;
  /** Seconds of the world's sound that were played into the loudspeaker. */
  readonly heardS: number;
  readonly rttMs: number | null;
  readonly sessionId: string | null;
}

export function exposeForTests(read: () => Debug): void {
  Object.defineProperty(window, "__greenroom", { get: read, enumerable: false });
}
