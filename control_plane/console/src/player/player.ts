/**
 * What happens when the person enters, leaves, plays again or reloads?
 *
 * Holds the one `View` that the components render, and at most one `SessionRun`. Asking for a session
 * repeats the same call with the same Idempotency-Key until it's answered, so a lost answer never
 * costs a place in line.
 */

import { greenroom, requestOf } from "../api/greenroom";
import { ApiFault, asFault } from "../client/fault";
import type { Session } from "../client/greenroom";
import type { SessionRecord } from "../client/types";
import { newIdempotencyKey, newIdentity, newViewerIdentity } from "../memory/ids";
import {
  type Asking,
  forgetPlace,
  loadAsking,
  loadPlace,
  type Place,
  saveAsking,
  savePlace,
} from "../memory/place";
import { forgetKey, saveKey } from "../memory/key";
import type { Ticket } from "../memory/ticket";
import { endingOf } from "../words/endings";
import { keyTroubleOf } from "../words/keys";
import { refusalOf } from "../words/refusals";
import { SessionRun } from "./session-run";
import { allowSound, chime } from "./sound";
import { EMPTY_ENTRY, type Entry, FRESH, type View } from "./view";

type Listener = () => void;

export class Player {
  private view: View = { ...FRESH, phase: "start", entry: EMPTY_ENTRY };
  private readonly listeners = new Set<Listener>();
  /** The create call whose answer is wanted; another object or null: its answer is not. */
  private asking: Asking | null = null;
  private gaveUp = new AbortController();
  run: SessionRun | null = null;

  readonly subscribe = (listener: Listener): Listener => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getView = (): View => this.view;

  /** After a load or reload: take up what the address brings along, or this browser remembers. */
  boot(ticket: Ticket | null): void {
    if (ticket !== null && ticket.sessionId !== loadPlace()?.sessionId) savePlace(placeOf(ticket));
    const place = loadPlace();
    const asking = loadAsking();
    if (place !== null) {
      this.set({ entry: { ...EMPTY_ENTRY, prompt: place.prompt, fps: place.fps } });
      this.begin(place, null, "resuming");
    } else if (asking !== null) {
      this.set({ entry: asking.entry });
      void this.ask(asking);
    }
  }

  /** In a click: ask for a session. */
  enter(entry: Entry): void {
    allowSound();
    this.set({ ...FRESH, entry });
    const place = loadPlace();
    if (place !== null) {
      // Another tab has entered since this one was opened; one session per browser.
      this.begin(place, null, "resuming");
      return;
    }
    void this.ask({ key: newIdempotencyKey(), identity: newIdentity(), entry });
  }

  /** Give up a request that isn't answered yet. */
  cancelEntering(): void {
    this.asking = null;
    this.gaveUp.abort();
    saveAsking(null);
    this.set({ ...FRESH, phase: "start" });
  }

  /** Enter once more, with a key for the server that asked for one. */
  useKey(key: string): void {
    saveKey(key);
    this.enter(this.view.entry);
  }

  /** Leave the line, or end the show. */
  end(): void {
    this.run?.end();
  }

  playAgain(): void {
    this.enter(this.view.entry);
  }

  backToStart(): void {
    this.set({ ...FRESH, phase: "start" });
  }

  playHere(): void {
    allowSound();
    this.run?.playHere();
  }

  /** In a click: start what the browser blocked. */
  unblock(): void {
    allowSound();
    void this.run?.stage.unblock();
  }

  /** Make an address for one viewer. It carries a viewer's token, never the session's own. */
  async viewerLink(): Promise<string> {
    if (this.run === null) throw new Error("there is no session");
    const { sessionId, sessionToken } = this.run;
    const session = greenroom.session(sessionId, sessionToken);
    const { token } = await session.viewer(newViewerIdentity());
    return new URL(`/watch/${sessionId}#${token}`, location.href).href;
  }

  private set(change: Partial<View>): void {
    this.view = { ...this.view, ...change };
    this.listeners.forEach((listener) => listener());
  }

  private async ask(asking: Asking): Promise<void> {
    this.asking = asking;
    this.gaveUp = new AbortController();
    saveAsking(asking);
    this.set({ phase: "entering" });
    const { identity, entry, key } = asking;
    const session = await greenroom
      .create(requestOf(identity, entry), {
        idempotencyKey: key,
        signal: this.gaveUp.signal,
        onUnreachable: () => {
          if (this.asking === asking) this.set({ reachable: false });
        },
      })
      .catch(asFault);
    if (!(session instanceof ApiFault)) this.answered(asking, session);
    else if (this.asking === asking) this.refuse(session);
  }

  private answered(asking: Asking, session: Session): void {
    if (this.asking !== asking) {
      // Cancelled meanwhile: give the place back to the line.
      void session.end().catch(() => undefined);
      return;
    }
    const answer = session.created;
    const place: Place = {
      sessionId: session.id,
      sessionToken: session.token ?? "",
      identity: asking.identity,
      livekitUrl: answer?.livekit_url ?? "",
      enteredAtMs: Date.now(),
      firstPosition: answer?.queue_position ?? 0,
      playedMs: 0,
      prompt: asking.entry.prompt,
      fps: asking.entry.fps,
    };
    savePlace(place);
    this.asking = null;
    saveAsking(null);
    this.begin(place, answer?.token ?? null, "entering");
  }

  private refuse(fault: ApiFault): void {
    this.asking = null;
    saveAsking(null);
    const keyTrouble = keyTroubleOf(fault);
    if (keyTrouble !== null) forgetKey();
    const refusal = keyTrouble === null ? refusalOf(fault) : null;
    this.set({ ...FRESH, phase: "start", refusal, keyTrouble });
  }

  private begin(place: Place, token: string | null, phase: "entering" | "resuming"): void {
    this.run?.stop();
    const run = new SessionRun(place, token, {
      update: (change) => {
        if (this.run === run) this.set(change);
      },
      onTurn: chime,
      onEnded: (record, playedS) => {
        if (this.run === run) this.ended(place.sessionId, record, playedS);
      },
    });
    this.run = run;
    this.set({ ...FRESH, phase, enteredAtMs: place.enteredAtMs });
    run.start();
  }

  private ended(sessionId: string, record: SessionRecord | null, playedS: number): void {
    const { phase, entry, ending } = this.view;
    this.run = null;
    forgetPlace(sessionId);
    if (phase === "resuming") {
      this.set({ ...FRESH, phase: "start", notice: "Your last session is over." });
      return;
    }
    if (phase === "waiting" && ending) {
      this.set({ ...FRESH, phase: "start", notice: "You left the line." });
      return;
    }
    const reason = record === null ? "lost" : record.reason;
    const error = record?.error ?? null;
    this.set({
      ...FRESH,
      phase: "ended",
      entry,
      final: {
        ending: endingOf(reason, error, playedS > 0),
        sessionId,
        code: reason ?? record?.status ?? "unknown",
        error,
        playedS,
      },
    });
  }
}

/** What is known of a session that came by a link; the rest is in its record. */
function placeOf({ sessionId, sessionToken }: Ticket): Place {
  return {
    sessionId,
    sessionToken,
    identity: "",
    livekitUrl: "",
    enteredAtMs: Date.now(),
    firstPosition: 0,
    playedMs: 0,
    prompt: "",
    fps: null,
  };
}
