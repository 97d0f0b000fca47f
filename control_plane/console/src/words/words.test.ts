import { expect, test } from "vitest";
import type { SessionRecord, SessionStatus } from "../client/types";
import { ApiFault } from "../client/fault";
import { parseWatchAddress } from "../watch/address";
import { chipsOf } from "./chips";
import { curtainOf } from "./curtain";
import { endingOf } from "./endings";
import { estimate, ordinal, placeInLine, progress } from "./place";
import { refusalOf } from "./refusals";
import { servedLine } from "./served";
import { signOf } from "./states";
import { clock, spell } from "./time";
import { watchCurtain } from "./watching";

function record(status: SessionStatus, position: number | null = null): SessionRecord {
  return {
    session_id: "default-x",
    room: "tf-world-default-x",
    livekit_url: "ws://here",
    status,
    created_at: 0,
    expires_at: null,
    error: null,
    reason: null,
    queue_position: position,
    attempt: 1,
    epoch: 1,
    node_id: "n",
  };
}

const situation = (status: SessionStatus, position: number | null = null) => ({
  record: record(status, position),
  picture: "none" as const,
  reachable: true,
  ending: false,
  returnedS: null,
  lease: null,
  shy: false,
});

test("places are said as people say them", () => {
  const said = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
  expect(said).toEqual(["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]);
  expect(placeInLine(2)).toBe("2nd in line");
  expect(estimate(null)).toBe("no estimate yet");
  expect(estimate(192)).toBe("about 3 m 12 s");
});

test("the bar shows the share of the way and never leaves its ends", () => {
  expect(progress(4, 4)).toBe(0);
  expect(progress(4, 1)).toBe(0.75);
  expect(progress(4, 9)).toBe(0);
  expect(progress(0, 1)).toBe(0);
});

test("durations", () => {
  expect([12, 192, 3_840].map(spell)).toEqual(["12 s", "3 m 12 s", "1 h 04 m"]);
  expect([7, 754, 3_723].map(clock)).toEqual(["0:07", "12:34", "1:02:03"]);
});

test("running without a real frame is still a start", () => {
  expect(signOf(record("running"), "none").words).toBe("The world is starting");
  expect(signOf(record("running"), "live")).toEqual({ tone: "live", words: "You're on" });
  expect(signOf(record("running"), "still").words).toBe("Reconnecting…");
});

test("nothing covers a live picture, whatever the API does", () => {
  const live = { ...situation("running"), picture: "live" as const };
  expect(curtainOf(live)).toBeNull();
  expect(curtainOf({ ...live, reachable: false })).toBeNull();
});

test("a lost stage is said with the place and the added time", () => {
  const lost = { ...situation("queued", 1), picture: "still" as const, returnedS: 11.6 };
  expect(curtainOf(lost)).toEqual({
    words: "Your stage was lost (the machine failed)",
    more: "You're first in line; 12 s will be added.",
  });
});

test("the new stage says why there is a new one", () => {
  const again = { ...situation("starting_pipeline"), picture: "still" as const, returnedS: 0.2 };
  expect(curtainOf(again)).toEqual({
    words: "The world is starting",
    more: "Your stage was lost (the machine failed).",
  });
});

test("while there's no picture an unreachable API is said", () => {
  expect(curtainOf({ ...situation("assigned"), reachable: false })?.words).toContain("Can't reach");
  expect(curtainOf(situation("assigned"))?.words).toBe("A stage is free, setting up");
  expect(curtainOf({ ...situation("running"), ending: true })?.words).toBe("Ending");
});

test("each reason of the API has words of its own", () => {
  const reasons = [
    ...["client_stop", "completed", "admin", "node_shutdown", "session_timeout"],
    ...["controller_timeout", "room_empty", "queue_abandoned", "pause_timeout", "talk_timeout"],
    ...["context_full", "join_timeout", "start_timeout", "recovery_limit", "service_error"],
    ...["livekit_error", "invalid_config"],
  ];
  const titles = reasons.map((reason) => endingOf(reason, null, true).title);
  expect(new Set(titles).size).toBe(reasons.length);
  expect(titles).not.toContain(endingOf("unheard_of", null, true).title);
});

test("the service's message follows, cut to one line", () => {
  expect(endingOf("service_error", "no memory\ntrace", true).title).toBe("The world broke: no memory");
  expect(endingOf("service_error", null, false).title).toBe("The world couldn't start");
  expect(endingOf("start_timeout", "x".repeat(500), false).title.length).toBeLessThan(200);
  expect(endingOf("client_stop", "ignored", true).title).toBe("You ended it");
});

test("a full line says when to try again, a wrong request what is wrong", () => {
  const busy = { kind: "busy", message: "-", retryable: true, retryAfterS: 7 } as const;
  expect(refusalOf(new ApiFault({ ...busy, code: "queue_full" }))).toMatchObject({
    words: "The line is full.",
    retryAfterS: 7,
  });
  expect(refusalOf(new ApiFault({ ...busy, code: "no_idle_worker" })).words).toContain("stages");
  const wrong = { kind: "invalid", code: "c", retryable: false, retryAfterS: null } as const;
  expect(refusalOf(new ApiFault({ ...wrong, message: "No picture." })).words).toBe("No picture.");
});

test("the line under the card says what is served and whether there is room", () => {
  const health = { status: "healthy", workers_total: 1, workers_idle: 1, queued_sessions: 0 } as const;
  const metadata = { pipeline_file: "/srv/worlds/demo_world.py" };
  expect(servedLine({ health, metadata, reachable: true })).toBe("demo_world · a stage is free");
  const slots = { ...health, slots_free: 3, slots_total: 4 };
  expect(servedLine({ health: slots, metadata, reachable: true })).toContain("3 of 4 stages free");
  const full = { ...health, queued_sessions: 2 };
  expect(servedLine({ health: full, metadata: null, reachable: true })).toBe("2 people waiting");
  expect(servedLine({ health, metadata, reachable: false })).toContain("Can't reach");
});

test("a viewer's address carries its token behind the #", () => {
  expect(parseWatchAddress("/watch/default-abc", "#t.o.k")).toEqual({
    sessionId: "default-abc",
    token: "t.o.k",
  });
  expect(parseWatchAddress("/", "#x")).toBeNull();
});

test("a viewer reads where the player is", () => {
  const now = { picture: "none" as const, reachable: true, trouble: null };
  expect(watchCurtain({ ...now, record: record("queued", 2) })?.words).toBe(
    "The player is 2nd in line",
  );
  expect(watchCurtain({ ...now, record: record("closed") })?.words).toBe("The show is over");
  expect(watchCurtain({ ...now, record: record("running"), picture: "live" })).toBeNull();
});

test("somebody who waits for a turn keeps the last picture and isn't reconnecting", () => {
  const waits = { ...situation("running"), lease: { state: "queued", position: 1 } as const };
  expect(curtainOf(waits)?.words).toBe("1st in line for a turn");
  expect(curtainOf({ ...waits, picture: "still" })).toBeNull();
  expect(signOf(record("running"), "still", waits.lease).words).toBe("Waiting for a turn");
  expect(curtainOf({ ...situation("running"), shy: true })?.words).toBe("Press a key to begin");
});

test("what goes on beside the picture is said in small", () => {
  const quiet = { reachable: true, covered: false, lease: null, endsInS: null, movesInS: null };
  expect(chipsOf(quiet)).toEqual([]);
  expect(chipsOf({ ...quiet, lease: { state: "granted" } })).toEqual([]);
  expect(chipsOf({ ...quiet, lease: { state: "queued", position: 2 } })).toEqual([
    "○ 2nd in line for a turn",
  ]);
  expect(chipsOf({ ...quiet, lease: { state: "parked" } })).toEqual([
    "○ Others play; press a key for your turn",
  ]);
  expect(chipsOf({ ...quiet, endsInS: 30, movesInS: 80 })).toEqual([
    "▲ Your time is up in 30 s",
    "▲ This stage closes in 1 m 20 s; you'll move to another",
  ]);
  expect(chipsOf({ ...quiet, reachable: false, covered: true })).toEqual([]);
});
