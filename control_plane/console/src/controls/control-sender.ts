/**
 * When is the state of the keys sent?
 *
 * On every change, then once a second while something is held: the worker takes silence for letting
 * go, and a worker that took over in the meantime hasn't heard the first message. Letting go is sent
 * once. Each message has a sequence number of its own, rising across reloads, because the worker
 * drops a number that it has seen.
 */

import { HeldKeys } from "./keys";

const AGAIN_MS = 1_000;

export interface ControlOutlet {
  /** Returns false when there's nobody to send to; the state is sent when there is. */
  send(controls: readonly string[], seq: number): boolean;
  onHeld(controls: readonly string[]): void;
}

export class ControlSender {
  private readonly keys = new HeldKeys();
  private seq = Date.now();
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly outlet: ControlOutlet) {}

  press(control: string): void {
    if (this.keys.press(control)) this.changed();
  }

  release(control: string): void {
    if (this.keys.release(control)) this.changed();
  }

  /** The window lost the focus, so no key-up will come. */
  releaseAll(): void {
    if (this.keys.clear()) this.changed();
  }

  /** Somebody new listens. */
  repeat(): void {
    if (this.keys.controls.length > 0) this.send();
  }

  private changed(): void {
    if (this.timer !== null) clearInterval(this.timer);
    const held = this.keys.controls;
    this.timer = held.length > 0 ? setInterval(() => this.send(), AGAIN_MS) : null;
    this.outlet.onHeld(held);
    this.send();
  }

  private send(): void {
    if (this.outlet.send(this.keys.controls, this.seq + 1)) this.seq += 1;
  }
}
