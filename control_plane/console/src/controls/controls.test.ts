import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ControlSender } from "./control-sender";
import { capOf, controlOf, isShortcut } from "./keys";

const press = (code: string, key = "") => ({
  code,
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
});

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function sending(reachable = true) {
  const sent: { controls: readonly string[]; seq: number }[] = [];
  const outlet = {
    reachable,
    send: (controls: readonly string[], seq: number) => {
      if (outlet.reachable) sent.push({ controls, seq });
      return outlet.reachable;
    },
    onHeld: vi.fn(),
  };
  return { sender: new ControlSender(outlet), sent, outlet };
}

test("keys count by their place, so another layout changes nothing", () => {
  expect(controlOf(press("KeyW", "z"))).toBe("w");
  expect(controlOf(press("ArrowLeft", "ArrowLeft"))).toBe("ArrowLeft");
  expect(controlOf(press("", "W"))).toBe("w");
  expect(controlOf(press("KeyQ", "w"))).toBeNull();
  expect(isShortcut({ ...press("KeyW", "w"), ctrlKey: true })).toBe(true);
  expect(capOf("ArrowUp")).toBe("↑");
});

test("each change is sent at once and a held key again each second", () => {
  const { sender, sent } = sending();
  sender.press("w");
  sender.press("w");
  sender.press("a");
  vi.advanceTimersByTime(2_500);
  expect(sent.map(({ controls }) => controls.join(""))).toEqual(["w", "wa", "wa", "wa"]);
});

test("letting go is sent once", () => {
  const { sender, sent } = sending();
  sender.press("w");
  sender.release("w");
  vi.advanceTimersByTime(5_000);
  expect(sent.map(({ controls }) => controls)).toEqual([["w"], []]);
});

test("losing the focus lets go of everything", () => {
  const { sender, sent, outlet } = sending();
  sender.press("w");
  sender.press("d");
  sender.releaseAll();
  sender.releaseAll();
  expect(sent.at(-1)?.controls).toEqual([]);
  expect(sent).toHaveLength(3);
  expect(outlet.onHeld).toHaveBeenLastCalledWith([]);
});

test("each message has a number of its own, rising across reloads", () => {
  const first = sending();
  first.sender.press("w");
  vi.advanceTimersByTime(3_000);
  const numbers = first.sent.map(({ seq }) => seq);
  expect(new Set(numbers).size).toBe(numbers.length);
  const second = sending();
  second.sender.press("w");
  expect(second.sent[0]?.seq).toBeGreaterThan(Math.max(...numbers));
});

test("a new worker hears what is held", () => {
  const { sender, sent, outlet } = sending(false);
  sender.repeat();
  sender.press("w");
  expect(sent).toHaveLength(0);
  outlet.reachable = true;
  sender.repeat();
  expect(sent.map(({ controls }) => controls)).toEqual([["w"]]);
});
