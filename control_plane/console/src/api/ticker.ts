/**
 * Who wakes the page up?
 *
 * Browsers slow the timers of a hidden tab to one a minute, which is too late for somebody who waits
 * in another tab for a stage. Timers inside a worker keep their pace, so the tick comes from one.
 */

const TICK_MS = 250;

type Listener = () => void;

class Ticker {
  private readonly listeners = new Set<Listener>();
  private started = false;

  /** Call *listener* about every 250 ms; returns the function that ends it. */
  every(listener: Listener): () => void {
    this.start();
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private start(): void {
    if (this.started) return;
    this.started = true;
    const tick = (): void => this.listeners.forEach((listener) => listener());
    try {
      const worker = new Worker(new URL("./ticker.worker.ts", import.meta.url), { type: "module" });
      worker.onmessage = tick;
      worker.postMessage(TICK_MS);
    } catch {
      setInterval(tick, TICK_MS);
    }
  }
}

export const ticker = new Ticker();
