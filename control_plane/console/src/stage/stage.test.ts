import { expect, test } from "vitest";
import { encodeControl, parseStatus } from "./protocol";
import { Pulse } from "./pulse";
import { RoundTrip } from "./round-trip";
import { chooseWorker, looksLikeWorker } from "./worker-choice";

const worker = (identity: string, role?: string) => ({ identity, role });
const bytes = (body: unknown) => new TextEncoder().encode(JSON.stringify(body));

test("only the worker of the named node and epoch is played", () => {
  const room = [
    worker("telefuser-node-a-7-1", "worker"),
    worker("telefuser-node-b-9-1", "worker"),
    worker("telefuser-node-a-9-1", "worker"),
    worker("viewer-x", "viewer"),
  ];
  const chosen = chooseWorker(room, { nodeId: "node-a", epoch: 9 });
  expect(chosen?.identity).toBe("telefuser-node-a-9-1");
  expect(chooseWorker(room, { nodeId: "node-a", epoch: 10 })).toBeNull();
  expect(chooseWorker(room, null)).toBeNull();
});

test("of several joins within an epoch the latest counts", () => {
  const room = [worker("telefuser-n-9-2"), worker("telefuser-n-9-10"), worker("telefuser-n-9-3")];
  expect(chooseWorker(room, { nodeId: "n", epoch: 9 })?.identity).toBe("telefuser-n-9-10");
});

test("a name that looks like a worker's isn't enough where the signed role says otherwise", () => {
  const impostor = worker("telefuser-n-9-11", "viewer");
  expect(chooseWorker([impostor], { nodeId: "n", epoch: 9 })).toBeNull();
  expect(looksLikeWorker(impostor)).toBe(false);
  expect(looksLikeWorker(worker("telefuser-n-1-1"))).toBe(true);
});

test("whoever has only a link sees the latest worker, by its signed role alone", () => {
  const room = [
    worker("telefuser-a-7-9", "worker"),
    worker("telefuser-b-9-1", "worker"),
    worker("telefuser-c-99-1"),
    worker("telefuser-d-99-1", "viewer"),
  ];
  expect(chooseWorker(room, "latest")?.identity).toBe("telefuser-b-9-1");
});

test("a node's name may end in numbers", () => {
  const room = [worker("telefuser-gpu-3-9-1")];
  expect(chooseWorker(room, { nodeId: "gpu-3", epoch: 9 })).not.toBeNull();
  expect(chooseWorker(room, { nodeId: "gpu", epoch: 9 })).toBeNull();
});

test("controls travel in the envelope with their number", () => {
  const raw = encodeControl("s-1", "control_state", { controls: ["w"] }, 5);
  expect(JSON.parse(new TextDecoder().decode(raw))).toEqual({
    version: 1,
    session_id: "s-1",
    type: "control_state",
    payload: { controls: ["w"] },
    seq: 5,
  });
});

test("status messages are read, foreign and broken ones are not", () => {
  const read = (body: unknown) => parseStatus(bytes(body), "s-1");
  expect(read({ type: "first_frame", session_id: "s-1" })).toEqual({ type: "first_frame" });
  expect(read({ type: "control_ack", session_id: "s-1", seq: 4 })).toEqual({
    type: "control_ack",
    seq: 4,
  });
  expect(read({ type: "closed", session_id: "s-1", reason: "admin" })).toEqual({
    type: "closed",
    reason: "admin",
  });
  expect(read({ type: "requeued", session_id: "s-1" })).toEqual({ type: "changed" });
  expect(read({ type: "chunk", session_id: "s-1", index: 3, data: {} })).toEqual({ type: "frames" });
  expect(read({ type: "chunk", session_id: "s-1", index: null, data: {} })).toBeNull();
  expect(read({ type: "first_frame", session_id: "s-2" })).toBeNull();
  expect(read({ type: "something_new" })).toBeNull();
  expect(parseStatus(new TextEncoder().encode("{"), "s-1")).toBeNull();
  expect(parseStatus(bytes(null), "s-1")).toBeNull();
});

test("the picture is live with real frames and still a second after the last one", () => {
  const pulse = new Pulse();
  expect(pulse.picture(0)).toBe("none");
  pulse.frame(100);
  expect(pulse.picture(1_000)).toBe("live");
  expect(pulse.picture(1_100)).toBe("still");
  pulse.frame(1_200);
  expect(pulse.picture(1_300)).toBe("live");
  pulse.interrupt();
  expect(pulse.picture(1_300)).toBe("still");
});

test("a hidden tab sees no frames, which says nothing", () => {
  const pulse = new Pulse();
  pulse.frame(0);
  pulse.assume(5_000);
  expect(pulse.picture(5_500)).toBe("live");
  pulse.interrupt();
  pulse.assume(6_000);
  expect(pulse.picture(6_000)).toBe("still");
});

test("the play clock only runs while the picture is live, and goes on after a reload", () => {
  const pulse = new Pulse(10_000);
  expect(pulse.playClockMs(0)).toBe(10_000);
  expect(pulse.playClockMs(500)).toBe(10_000);
  pulse.frame(500);
  expect(pulse.playClockMs(1_000)).toBe(10_500);
  expect(pulse.playClockMs(9_000)).toBe(10_500);
});

test("the rate counts painted frames, also those between two callbacks", () => {
  const pulse = new Pulse();
  for (let at = 0; at <= 2_000; at += 125) pulse.frame(at, 2);
  expect(pulse.fps(2_000)).toBeCloseTo(16, 5);
  expect(pulse.fps(9_000)).toBe(0);
});

test("the round trip is the median of the last five answers", () => {
  const trip = new RoundTrip();
  expect(trip.ms).toBeNull();
  [40, 10, 20, 900, 30].forEach((ms, seq) => {
    trip.sent(seq, 0);
    trip.acknowledged(seq, ms);
  });
  trip.acknowledged(3, 5_000);
  expect(trip.ms).toBe(30);
});

test("whose turn it is comes as a stage of the pipeline", () => {
  const said = (data: unknown) => parseStatus(bytes({ type: "chunk", index: null, data }), "x");
  expect(said({ type: "status", stage: "lease_queued", queue_position: 2 })).toEqual({
    type: "lease",
    lease: { state: "queued", position: 2 },
  });
  expect(said({ type: "status", stage: "lease_granted" })).toEqual({
    type: "lease",
    lease: { state: "granted" },
  });
  expect(said({ type: "status", stage: "lease_parked" })).toEqual({
    type: "lease",
    lease: { state: "parked" },
  });
  expect(said({ type: "status", stage: "worker_running" })).toBeNull();
  expect(said(null)).toBeNull();
});

test("a stage that closes says in how many seconds; without them the API is asked", () => {
  expect(parseStatus(bytes({ type: "draining", in_s: 80 }), "x")).toEqual({
    type: "draining",
    inS: 80,
  });
  expect(parseStatus(bytes({ type: "draining", in_s: null }), "x")).toEqual({
    type: "draining",
    inS: null,
  });
  expect(parseStatus(bytes({ type: "draining", reason: "client_stop" }), "x")).toEqual({
    type: "changed",
  });
});
