/**
 * How does one session go on this page, from its place in line to its end?
 *
 * The API's record rules; the event stream and the room only hint that it's worth reading now.
 * The room is joined while a slot is held and this tab is the one that plays; after a lost connection
 * with a fresh token. A return to the line keeps everything: same page, same room, same token.
 * After `stop()` nothing is reported any more, whatever still comes in.
 */

import { greenroom } from "../api/greenroom";
import { Patience } from "../api/patience";
import { Poller } from "../api/poller";
import { ticker } from "../api/ticker";
import { backoffMs } from "../client/backoff";
import { ApiFault, asFault } from "../client/fault";
import type { Session } from "../client/greenroom";
import type { SessionEvents } from "../client/session-events";
import { hasEnded, isOnStage, type SessionRecord } from "../client/types";
import { ControlSender } from "../controls/control-sender";
import { OneTab } from "../memory/one-tab";
import { type Place, savePlace } from "../memory/place";
import { encodeControl, type StageStatus } from "../stage/protocol";
import { RoundTrip } from "../stage/round-trip";
import { type Lost, Stage } from "../stage/stage";
import { progress } from "../words/place";
import type { View } from "./view";

/** A token in hand is used again for this long; an older one is renewed before joining. */
const TOKEN_FRESH_MS = 300_000;
/** A world that runs for so long without a picture may wait for the first key. */
const SHY_AFTER_MS = 2_000;
const SAVE_EVERY_MS = 5_000;
const REJOIN_AFTER_MS = 400;
/** While the event stream is open the record is read only to be sure. */
const PACE_WITH_STREAM_MS = 5_000;

export interface RunEvents {
  update(change: Partial<View>): void;
  /** It's this person's turn now. */
  onTurn(): void;
  /** The session is over; `null`: the API doesn't know it (any more). */
  onEnded(record: SessionRecord | null, playedS: number): void;
}

/** Between two looks a session can have been in line and on a stage again. */
function wasReturned(before: SessionRecord | null, record: SessionRecord): boolean {
  if (before === null) return record.status === "queued" && record.attempt > 1;
  return record.attempt > before.attempt;
}

export class SessionRun {
  readonly stage: Stage;
  readonly sender: ControlSender;
  readonly roundTrip = new RoundTrip();
  private readonly poller: Poller;
  private readonly session: Session;
  private readonly stream: SessionEvents;
  private readonly patience = new Patience();
  private readonly tab: OneTab;
  private readonly unsubscribe: () => void;
  private record: SessionRecord | null = null;
  private token: { value: string; at: number } | null;
  private stopped = false;
  private mine = false;
  private elsewhere = false;
  private joining = false;
  private joinFailures = 0;
  private joinDueAt = 0;
  private endFailures = 0;
  private endDueAt = Number.POSITIVE_INFINITY;
  private wasOnStage = false;
  private returnedAt: number | null = null;
  private runsSince: number | null = null;
  private farthest = 0;
  private savedAt = 0;

  constructor(
    private place: Place,
    firstToken: string | null,
    private readonly events: RunEvents,
  ) {
    this.session = greenroom.session(place.sessionId, place.sessionToken);
    this.token = firstToken === null ? null : { value: firstToken, at: performance.now() };
    this.stage = new Stage(
      place.sessionId,
      {
        onStatus: (status) => this.onStatus(status),
        onHint: () => this.poller.poke(),
        onWorker: () => this.onWorker(),
        onBlocked: (blocked) => this.update({ blocked }),
        onSound: (sound) => this.update({ sound }),
        onLost: (why) => this.onLost(why),
      },
      place.playedMs,
    );
    this.sender = new ControlSender({
      send: (controls, seq) => this.sendControls(controls, seq),
      onHeld: (held) => this.update(held.length > 0 ? { held, hasPressed: true } : { held }),
    });
    this.poller = new Poller({
      read: () => this.session.read(),
      paceMs: () => this.paceMs(),
      onRecord: (record) => this.onRecord(record),
      onFault: (fault) => this.onFault(fault),
    });
    this.stream = this.session.events({
      onPlace: (place) => this.onPlace(place.position, place.estimatedWaitS),
      onChange: () => this.poller.poke(),
    });
    this.tab = new OneTab(place.sessionId, {
      onMine: () => this.onTab(false),
      onElsewhere: () => this.onTab(true),
    });
    this.unsubscribe = ticker.every(() => this.tick());
  }

  start(): void {
    this.tab.claim();
    this.poller.start();
  }

  /** Ask for the end; `onEnded` follows when it's confirmed. */
  end(): void {
    this.stage.send(encodeControl(this.place.sessionId, "stop", {}));
    this.update({ ending: true });
    this.endDueAt = 0;
    this.tick();
  }

  playHere(): void {
    if (!this.mine) this.tab.steal();
    else this.onTab(false);
  }

  stop(): void {
    this.stopped = true;
    this.poller.stop();
    this.stream.stop();
    this.unsubscribe();
    this.sender.releaseAll();
    this.stage.leave();
    this.tab.release();
  }

  get sessionId(): string {
    return this.place.sessionId;
  }

  get sessionToken(): string {
    return this.place.sessionToken;
  }

  private update(change: Partial<View>): void {
    if (!this.stopped) this.events.update(change);
  }

  private paceMs(): number {
    if (this.stream.open) return PACE_WITH_STREAM_MS;
    const settled = this.record?.status === "running" && this.picture() === "live";
    return settled ? 2_000 : 1_000;
  }

  private picture(): View["picture"] {
    return this.stage.pulse.picture(performance.now());
  }

  private onRecord(record: SessionRecord): void {
    const before = this.record;
    this.record = record;
    this.patience.found();
    if (record.status === "queued") this.joinFailures = 0;
    if (hasEnded(record.status)) {
      this.finish(record);
      return;
    }
    this.followLine(before, record);
    const { node_id: nodeId, epoch } = record;
    const owned = isOnStage(record.status) && nodeId !== null && epoch !== null;
    this.stage.follow(owned ? { nodeId, epoch } : null);
    const onStage = this.wasOnStage || record.status !== "queued";
    // A room that can't be joined is as much out of reach as an API that doesn't answer.
    const reachable = this.joinFailures === 0;
    this.update({ phase: onStage ? "stage" : "waiting", record, reachable });
    this.tick();
  }

  /** A new place in line; an answer on its way may be older, so then it's asked for once more. */
  private onPlace(position: number, estimatedWaitS: number | null): void {
    const { record } = this;
    if (record === null || record.status !== "queued" || this.poller.isAsking) this.poller.poke();
    else {
      this.onRecord({
        ...record,
        queue_position: position,
        estimated_wait_s: estimatedWaitS,
      });
    }
  }

  /** Keep what the line has to do with: place, progress, turn, return. */
  private followLine(before: SessionRecord | null, record: SessionRecord): void {
    if (wasReturned(before, record)) this.returnedAt ??= performance.now();
    if (record.status === "queued") {
      const position = record.queue_position ?? 1;
      if (this.place.firstPosition === 0) this.remember({ firstPosition: position });
      this.farthest = Math.max(this.farthest, progress(this.place.firstPosition, position));
    } else {
      if (before?.status === "queued" && isOnStage(record.status)) this.events.onTurn();
      this.wasOnStage = true;
      this.farthest = 1;
    }
    const sinceMs = this.returnedAt;
    this.update({
      progress: this.farthest,
      enteredAtMs: this.place.enteredAtMs,
      returned: sinceMs === null ? null : { sinceMs },
    });
  }

  private onFault(fault: ApiFault): void {
    const gone = fault.kind === "gone" && this.patience.missing(performance.now(), this.wasOnStage);
    if (gone) this.finish(null);
    else this.update({ reachable: false });
  }

  private finish(record: SessionRecord | null): void {
    if (this.stopped) return;
    const playedS = this.stage.pulse.playClockMs(performance.now()) / 1_000;
    this.stop();
    this.events.onEnded(record, playedS);
  }

  private onStatus(status: StageStatus): void {
    if (status.type === "control_ack") {
      this.roundTrip.acknowledged(status.seq, performance.now());
    } else if (status.type === "expiring") {
      this.update({ upAtMs: Date.now() + status.inS * 1_000 });
    } else if (status.type === "draining") {
      const { inS } = status;
      this.update({ movesAtMs: inS === null ? null : Date.now() + inS * 1_000 });
    } else if (status.type === "lease") {
      this.update({ lease: status.lease });
    } else if (status.type === "first_frame" || status.type === "changed") {
      this.poller.poke();
    } else if (status.type === "closed") {
      this.update({ ending: true });
      this.poller.poke();
    }
  }

  /** What the former worker said of its turns and its end is over with it. */
  private onWorker(): void {
    this.update({ lease: null, movesAtMs: null });
    this.sender.repeat();
  }

  private onLost(why: Lost): void {
    this.token = null;
    // The record first: a room also goes away because its session has ended.
    this.joinDueAt = performance.now() + REJOIN_AFTER_MS;
    if (why === "duplicate") this.setElsewhere(true);
    this.poller.poke();
  }

  private onTab(elsewhere: boolean): void {
    this.mine = !elsewhere;
    // Browsers allow few connections to one server: the tab that plays has the stream.
    if (this.mine) this.stream.start();
    else this.stream.stop();
    if (elsewhere) {
      this.sender.releaseAll();
      this.stage.leave();
      this.token = null;
    }
    this.setElsewhere(elsewhere);
    this.tick();
  }

  private setElsewhere(elsewhere: boolean): void {
    this.elsewhere = elsewhere;
    this.update({ elsewhere });
  }

  private sendControls(controls: readonly string[], seq: number): boolean {
    const payload = encodeControl(this.place.sessionId, "control_state", { controls }, seq);
    const sent = this.stage.send(payload);
    if (sent) this.roundTrip.sent(seq, performance.now());
    return sent;
  }

  /** Four times a second: what is due, and the numbers. */
  private tick(): void {
    if (this.stopped) return;
    const now = performance.now();
    if (document.hidden) this.stage.pulse.assume(now);
    const status = this.record?.status;
    if (now >= this.endDueAt) void this.askForEnd();
    const wanted = status !== undefined && isOnStage(status) && this.mine && !this.elsewhere;
    if (wanted && !this.stage.joined && !this.joining && now >= this.joinDueAt) void this.join();
    this.measure(now);
  }

  private measure(now: number): void {
    const { pulse } = this.stage;
    const picture = pulse.picture(now);
    const playedMs = pulse.playClockMs(now);
    if (picture === "live" && this.record?.status === "running") this.returnedAt = null;
    if (this.mine && playedMs !== this.place.playedMs && now - this.savedAt >= SAVE_EVERY_MS) {
      this.savedAt = now;
      this.remember({ playedMs });
    }
    if (this.record?.status !== "running" || !this.stage.joined) this.runsSince = null;
    else this.runsSince ??= now;
    this.update({
      picture,
      shy: picture === "none" && this.runsSince !== null && now - this.runsSince > SHY_AFTER_MS,
      numbers: {
        fps: Math.round(pulse.fps(now)),
        rttMs: this.roundTrip.ms === null ? null : Math.round(this.roundTrip.ms),
        viewers: this.stage.viewers,
        playedS: Math.floor(playedMs / 1_000),
      },
    });
  }

  private remember(change: Partial<Place>): void {
    this.place = { ...this.place, ...change };
    savePlace(this.place);
  }

  private async join(): Promise<void> {
    this.joining = true;
    try {
      const token = await this.freshToken();
      if (this.stopped || !this.mine) return;
      await this.stage.join(this.record?.livekit_url ?? this.place.livekitUrl, token);
      this.joinFailures = 0;
    } catch (error) {
      // Left meanwhile, or taken over by another tab: no failure.
      if (this.stopped || !this.mine) return;
      this.token = null;
      this.joinFailures += 1;
      this.joinDueAt = performance.now() + backoffMs(this.joinFailures, null);
      this.update({ reachable: false });
      if (error instanceof ApiFault) this.notGiven(error);
    } finally {
      this.joining = false;
    }
  }

  /** The API refused a call that only the session's owner may make. */
  private notGiven(fault: ApiFault): void {
    // It doesn't take our ticket any more: nothing that this page could still do.
    if (fault.kind === "denied") this.finish(null);
    // 404 or 409: the session is over; the record says why.
    else this.poller.poke();
  }

  private async freshToken(): Promise<string> {
    const now = performance.now();
    if (this.token !== null && now - this.token.at < TOKEN_FRESH_MS) return this.token.value;
    const answer = await this.session.join(this.place.identity);
    this.token = { value: answer.token, at: performance.now() };
    return answer.token;
  }

  private async askForEnd(): Promise<void> {
    this.endDueAt = Number.POSITIVE_INFINITY;
    const answer = await this.session.end().catch(asFault);
    if (this.stopped) return;
    if (!(answer instanceof ApiFault)) {
      this.poller.poke();
    } else if (answer.kind === "unreachable") {
      this.endFailures += 1;
      this.endDueAt = performance.now() + backoffMs(this.endFailures, answer.retryAfterS);
      this.update({ reachable: false });
    } else {
      this.notGiven(answer);
    }
  }
}
