import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { unreachable } from "../client/fault";
import { backoffMs } from "../client/backoff";
import { Poller } from "./poller";
import type { SessionRecord } from "../client/types";

const RECORD = { status: "queued" } as SessionRecord;

// Once for all tests: the page has one ticker, which the first of them starts.
beforeAll(() => void vi.useFakeTimers());
afterAll(() => void vi.useRealTimers());

function polling(read: () => Promise<SessionRecord>) {
  const events = { read: vi.fn(read), paceMs: () => 1_000, onRecord: vi.fn(), onFault: vi.fn() };
  const poller = new Poller(events);
  poller.start();
  return { poller, events };
}

test("the session is read at once and then at the pace that was named", async () => {
  const { poller, events } = polling(() => Promise.resolve(RECORD));
  await vi.advanceTimersByTimeAsync(3_600);
  expect(events.read).toHaveBeenCalledTimes(4);
  poller.stop();
});

test("a poke makes a call at once, many pokes make no storm", async () => {
  const { poller, events } = polling(() => Promise.resolve(RECORD));
  await vi.advanceTimersByTimeAsync(300);
  for (let i = 0; i < 20; i += 1) poller.poke();
  await vi.advanceTimersByTimeAsync(300);
  expect(events.read.mock.calls.length).toBeLessThanOrEqual(3);
  expect(events.read.mock.calls.length).toBeGreaterThanOrEqual(2);
  poller.stop();
});

test("calls never overlap", async () => {
  let answer: (record: SessionRecord) => void = () => undefined;
  const { poller, events } = polling(() => new Promise((resolve) => (answer = resolve)));
  poller.poke();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(events.read).toHaveBeenCalledTimes(1);
  answer(RECORD);
  await vi.advanceTimersByTimeAsync(300);
  expect(events.read).toHaveBeenCalledTimes(2);
  poller.stop();
});

test("while nobody answers the pauses grow up to eight seconds", async () => {
  const { poller, events } = polling(() => Promise.reject(unreachable("out", "network")));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(events.onFault.mock.calls.length).toBeLessThanOrEqual(7);
  expect(backoffMs(20, null)).toBe(8_000);
  expect(backoffMs(1, 3)).toBe(3_000);
  poller.stop();
});

test("an answer that comes after the stop is nobody's", async () => {
  const { poller, events } = polling(() => Promise.resolve(RECORD));
  poller.stop();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(events.onRecord).not.toHaveBeenCalled();
});
