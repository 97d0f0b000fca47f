import { expect, test } from "vitest";
import type { NodeSight, SessionSight } from "../admin/types";
import { ApiFault } from "../client/fault";
import { keyTroubleOf, keyTroubleOfStatus } from "./keys";
import { finely, nodeSign, rangeWords, sessionSign, shortId } from "./operator";

const node = (facts: Partial<NodeSight> = {}) =>
  ({ state: "busy", admin: "open", judged: "ok", media_ok: true, draining: false, beat_at: 100, ...facts }) as NodeSight;

test("a node says first what is wrong, then what was ordered, then what it does", () => {
  expect(nodeSign(node(), 101)).toEqual({ tone: "live", words: "busy" });
  expect(nodeSign(node({ admin: "draining" }), 101).words).toBe("drained");
  expect(nodeSign(node({ admin: "draining", media_ok: false }), 101).words).toBe("no LiveKit");
  expect(nodeSign(node({ judged: "suspect" }), 101).words).toBe("suspect");
  expect(nodeSign(node({ state: "error" }), 200).words).toBe("error");
  expect(nodeSign(node(), 108).words).toBe("silent");
  expect(nodeSign(node({ state: "of a newer release" }), 101).tone).toBe("attention");
});

test("running without a frame isn't yet on stage", () => {
  const session = { state: "running", first_frame_at: null } as SessionSight;
  expect(sessionSign(session).words).toBe("no frame yet");
  expect(sessionSign({ ...session, first_frame_at: 5 }).words).toBe("on stage");
});

test("estimates are ranges, or none", () => {
  expect(rangeWords(null)).toBe("no estimate");
  expect(rangeWords([40, 125])).toBe("40 s – 2 m 5 s");
  expect(rangeWords([1, 1.2])).toBe("1 s");
  expect([0.42, 12].map(finely)).toEqual(["0.4 s", "12 s"]);
  expect(shortId("my-pool-abcdefghijkl")).toBe("abcdefgh");
});

test("only what another key would help with asks for one", () => {
  const fault = (code: string) =>
    new ApiFault({ kind: "denied", message: "", code, retryable: false, retryAfterS: null });
  expect(["no_credentials", "bad_api_key", "scope_missing", "foreign_origin"].map((code) => keyTroubleOf(fault(code)))).toEqual([
    "missing",
    "wrong",
    "not_allowed",
    null,
  ]);
  expect(keyTroubleOfStatus(401, false)).toBe("missing");
  expect(keyTroubleOfStatus(401, true)).toBe("wrong");
  expect(keyTroubleOfStatus(503, true)).toBeNull();
});
