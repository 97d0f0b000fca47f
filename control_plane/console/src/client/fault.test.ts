import { expect, test } from "vitest";
import { asFault, faultOf } from "./fault";

test("a refusal for want of room carries the compatible word and when to try again", () => {
  const body = { code: "busy", detail: "queue_full", message: "All stages are taken.", retryable: true };
  const fault = faultOf(429, body, "7");
  expect(fault).toMatchObject({ kind: "busy", code: "queue_full", retryAfterS: 7 });
});

test("a wrong request is told with the problem's sentence", () => {
  const fault = faultOf(422, { code: "invalid_image", detail: "It is no picture." }, null);
  expect(fault).toMatchObject({ kind: "invalid", message: "It is no picture.", retryable: false });
});

test("an answer that isn't a problem still becomes a fault", () => {
  expect(faultOf(502, "<html>", null)).toMatchObject({ kind: "unreachable", retryable: true });
  expect(faultOf(422, { detail: [{ msg: "list of faults" }] }, null).message).toContain("422");
});

test("a bug of the server isn't asked for again", () => {
  const fault = faultOf(500, { code: "internal_error", message: "It broke.", retryable: false }, null);
  expect(fault.retryable).toBe(false);
});

test("a broken connection is a fault that may be tried again", () => {
  expect(asFault(new TypeError("fetch failed"))).toMatchObject({ kind: "unreachable" });
});
