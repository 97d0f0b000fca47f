/**
 * Which painted frames are real?
 *
 * A publisher sends black frames at 10 fps until the model's first one. Real ones carry metadata,
 * which a worker of livekit-client takes out of the stream; where the browser can't do that, the
 * worker's own word (`first_frame`, chunk metadata) tells. Real frames never turn black again on the
 * same track, so one hit settles it for the rest of the track.
 */

import type { RemoteVideoTrack } from "livekit-client";

export class FrameWatch {
  private real = false;
  private presented = 0;
  private handle: number | null = null;

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly track: RemoteVideoTrack,
    private readonly onReal: (now: number, count: number) => void,
  ) {
    this.next();
  }

  /** The worker says that real frames are flowing. */
  announce(): void {
    this.real = true;
  }

  stop(): void {
    if (this.handle !== null) this.video.cancelVideoFrameCallback(this.handle);
    this.handle = null;
  }

  private next(): void {
    this.handle = this.video.requestVideoFrameCallback((now, frame) => {
      this.seen(now, frame);
      this.next();
    });
  }

  private seen(now: number, frame: VideoFrameCallbackMetadata): void {
    // Callbacks can be skipped when the main thread is busy; the counter can't.
    const count = frame.presentedFrames - this.presented;
    const first = this.presented === 0;
    this.presented = frame.presentedFrames;
    if (!this.real && frame.rtpTimestamp !== undefined) {
      const { rtpTimestamp } = frame;
      this.real = this.track.lookupFrameMetadata({ rtpTimestamp }) !== undefined;
    }
    if (this.real) this.onReal(now, first ? 1 : Math.max(1, count));
  }
}
