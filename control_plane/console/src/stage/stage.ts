/**
 * How does the page take part in the room?
 *
 * It joins with the token that it is given, plays the one worker that the API names (see
 * `worker-choice.ts`) into a video element that lives as long as the stage, and passes on what that
 * worker says. A new worker takes over in the same element. What follows from losing the room is
 * decided by the caller.
 */

import {
  DisconnectReason,
  type RemoteParticipant,
  type RemoteTrack,
  RemoteVideoTrack,
  Room,
  RoomEvent,
  setLogLevel,
  Track,
} from "livekit-client";
import FrameMetadataWorker from "livekit-client/frame-metadata-worker?worker";
import { FrameWatch } from "./frame-watch";
import { CONTROL_TOPIC, parseStatus, type StageStatus, STATUS_TOPIC } from "./protocol";
import { Pulse } from "./pulse";
import { Still } from "./still";
import { chooseWorker, looksLikeWorker, type Somebody, type Wanted } from "./worker-choice";

// Its own lines say nothing that the page doesn't, and an address with a token in it stays out.
setLogLevel("error");

export interface StageEvents {
  /** From the current worker. */
  onStatus(status: StageStatus): void;
  /** Something moved in the room that the API's record may explain. */
  onHint(): void;
  /** The picture is somebody else's from now on (or the first one's). */
  onWorker(identity: string | null): void;
  /** The browser refuses to show the picture without a gesture, or shows it again. */
  onBlocked(blocked: boolean): void;
  onSound(sound: Sound): void;
  /** The room is gone for us. */
  onLost(why: Lost): void;
}

/** `duplicate`: the same identity joined elsewhere; `deleted`: the room was, as after an end. */
export type Lost = "duplicate" | "deleted" | "lost";

const LOST: Readonly<Partial<Record<DisconnectReason, Lost>>> = {
  [DisconnectReason.DUPLICATE_IDENTITY]: "duplicate",
  [DisconnectReason.ROOM_DELETED]: "deleted",
};

/** `none`: the worker sends no sound; `blocked`: the browser wants a gesture first. */
export type Sound = "none" | "on" | "off" | "blocked";

interface Described extends Somebody {
  readonly participant: RemoteParticipant;
}

function describe(participant: RemoteParticipant): Described {
  return {
    identity: participant.identity,
    role: participant.attributes["gr.role"] || undefined,
    participant,
  };
}

function createVideo(): HTMLVideoElement {
  const video = document.createElement("video");
  video.className = "stage-video";
  video.muted = true;
  video.autoplay = true;
  video.playsInline = true;
  video.disablePictureInPicture = true;
  return video;
}

function createStill(): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.className = "stage-still";
  return canvas;
}

export class Stage {
  readonly video = createVideo();
  readonly still = createStill();
  readonly pulse: Pulse;
  private readonly audio = new Audio();
  private readonly lastFrame = new Still(this.still);
  private room: Room | null = null;
  private wanted: Wanted = null;
  private worker: RemoteParticipant | null = null;
  private playing: RemoteTrack | null = null;
  private sounding: RemoteTrack | null = null;
  private watch: FrameWatch | null = null;

  constructor(
    private readonly sessionId: string,
    private readonly events: StageEvents,
    playedBeforeMs = 0,
  ) {
    this.pulse = new Pulse(playedBeforeMs);
  }

  get joined(): boolean {
    return this.room !== null;
  }

  get workerIdentity(): string | null {
    return this.worker?.identity ?? null;
  }

  get heardS(): number {
    return this.audio.muted ? 0 : this.audio.currentTime;
  }

  /** People in the room who only watch. */
  get viewers(): number {
    const others = [...(this.room?.remoteParticipants.values() ?? [])].map(describe);
    return others.filter((one) => !looksLikeWorker(one) && one.role !== "controller").length;
  }

  /** Join; throws when the room can't be joined with this token. */
  async join(url: string, token: string): Promise<void> {
    const frames = new FrameMetadataWorker();
    const room = new Room({
      adaptiveStream: false,
      dynacast: false,
      frameMetadata: { worker: frames },
    });
    this.room = room;
    this.listen(room, frames);
    try {
      await room.connect(url, token);
    } catch (error) {
      if (this.room === room) this.forget();
      frames.terminate();
      throw error;
    }
    if (this.room !== room) {
      // Left while joining.
      await room.disconnect();
      return;
    }
    this.refresh();
  }

  /** The API's word on whose picture counts; null while nobody's does. */
  follow(wanted: Wanted): void {
    this.wanted = wanted;
    this.refresh();
  }

  /** Send to the current worker; false if there's none or the room isn't joined. */
  send(payload: Uint8Array<ArrayBuffer>): boolean {
    if (this.room === null || this.worker === null) return false;
    const options = {
      reliable: true,
      topic: CONTROL_TOPIC,
      destinationIdentities: [this.worker.identity],
    };
    // A message that is lost with its connection is sent again with the next change or second.
    void this.room.localParticipant.publishData(payload, options).catch(() => undefined);
    return true;
  }

  /** In a click: start what the browser blocked. */
  async unblock(): Promise<void> {
    await Promise.allSettled([this.room?.startVideo(), this.room?.startAudio()]);
    this.tellBlocked();
  }

  /** In a click: let the world be heard, or silence it. */
  async toggleSound(): Promise<void> {
    const blocked = this.heardAs() === "blocked";
    this.audio.muted = !blocked && !this.audio.muted;
    if (blocked) await this.room?.startAudio().catch(() => undefined);
    this.tellBlocked();
  }

  leave(): void {
    const room = this.room;
    this.forget();
    void room?.disconnect();
  }

  private listen(room: Room, frames: Worker): void {
    const mine = (act: () => void) => () => {
      if (this.room === room) act();
    };
    const refresh = mine(() => this.refresh());
    const moved = mine(() => {
      this.refresh();
      this.events.onHint();
    });
    room
      .on(RoomEvent.TrackSubscribed, refresh)
      .on(RoomEvent.TrackUnsubscribed, moved)
      .on(RoomEvent.ParticipantConnected, moved)
      .on(RoomEvent.ParticipantDisconnected, moved)
      .on(RoomEvent.ParticipantAttributesChanged, refresh)
      .on(RoomEvent.Reconnected, moved)
      .on(RoomEvent.VideoPlaybackStatusChanged, mine(() => this.tellBlocked()))
      .on(RoomEvent.AudioPlaybackStatusChanged, mine(() => this.tellBlocked()))
      .on(RoomEvent.DataReceived, (payload, participant, _kind, topic) => {
        if (this.room === room && topic === STATUS_TOPIC) this.heard(payload, participant);
      })
      .once(RoomEvent.Disconnected, (reason) => {
        frames.terminate();
        if (this.room !== room) return;
        this.forget();
        this.events.onLost((reason !== undefined && LOST[reason]) || "lost");
      });
  }

  private heard(payload: Uint8Array, participant: RemoteParticipant | undefined): void {
    const status = parseStatus(payload, this.sessionId);
    if (status === null) return;
    if (participant !== undefined && participant === this.worker) {
      if (status.type === "first_frame" || status.type === "frames") this.watch?.announce();
      this.events.onStatus(status);
      return;
    }
    // A replica (no participant), or a worker that the API hasn't named yet: only a hint.
    if (status.type !== "frames") this.events.onHint();
  }

  /** Play whoever is the current worker now. */
  private refresh(): void {
    if (this.room === null) return;
    const others = [...this.room.remoteParticipants.values()].map(describe);
    const worker = chooseWorker(others, this.wanted)?.participant ?? null;
    if (worker !== this.worker) {
      this.worker = worker;
      this.events.onWorker(worker?.identity ?? null);
    }
    this.play(worker?.getTrackPublication(Track.Source.Camera)?.track ?? null);
    this.sound(worker?.getTrackPublication(Track.Source.Microphone)?.track ?? null);
  }

  private play(track: RemoteTrack | null | undefined): void {
    const next = track instanceof RemoteVideoTrack ? track : null;
    if (next === this.playing) return;
    this.watch?.stop();
    this.watch = null;
    this.pulse.interrupt();
    this.playing?.detach(this.video);
    this.playing = next;
    if (next === null) return;
    next.attach(this.video);
    this.watch = new FrameWatch(this.video, next, (now, count) => {
      this.pulse.frame(now, count);
      this.lastFrame.copy(this.video, now);
    });
  }

  private sound(track: RemoteTrack | null | undefined): void {
    const next = track ?? null;
    if (next === this.sounding) return;
    this.sounding?.detach(this.audio);
    this.sounding = next;
    next?.attach(this.audio);
    this.events.onSound(this.heardAs());
  }

  private heardAs(): Sound {
    if (this.sounding === null || this.room === null) return "none";
    if (!this.room.canPlaybackAudio) return "blocked";
    return this.audio.muted ? "off" : "on";
  }

  private tellBlocked(): void {
    if (this.room === null) return;
    this.events.onBlocked(!this.room.canPlaybackVideo);
    this.events.onSound(this.heardAs());
  }

  private forget(): void {
    this.room = null;
    this.play(null);
    this.sound(null);
    if (this.worker === null) return;
    this.worker = null;
    this.events.onWorker(null);
  }
}
