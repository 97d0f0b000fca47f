/**
 * What is shown when the picture stops?
 *
 * A video element turns black when its track goes away, so the last real frame is copied into a
 * canvas ahead of time, a few times a second.
 */

const EVERY_MS = 200;
const MAX_WIDTH = 1280;

export class Still {
  private copiedAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly canvas: HTMLCanvasElement) {}

  copy(video: HTMLVideoElement, now: number): void {
    if (now - this.copiedAt < EVERY_MS || video.videoWidth === 0) return;
    this.copiedAt = now;
    const scale = Math.min(1, MAX_WIDTH / video.videoWidth);
    const width = Math.round(video.videoWidth * scale);
    const height = Math.round(video.videoHeight * scale);
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    this.canvas.getContext("2d")?.drawImage(video, 0, 0, width, height);
  }
}
