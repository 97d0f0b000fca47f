import { expect, test } from "vitest";
import { heldAt, knobAt, LOOK, MOVE } from "./directions";

test("a finger holds the direction that it lies in, and between two both", () => {
  expect(heldAt(0, -50, 80, MOVE)).toEqual(["w"]);
  expect(heldAt(50, 3, 80, MOVE)).toEqual(["d"]);
  expect(heldAt(-40, 45, 80, MOVE)).toEqual(["s", "a"]);
  expect(heldAt(-40, -45, 80, LOOK)).toEqual(["ArrowUp", "ArrowLeft"]);
});

test("a finger that rests in the middle holds nothing, one outside still does", () => {
  expect(heldAt(5, 5, 80, MOVE)).toEqual([]);
  expect(heldAt(0, 400, 80, MOVE)).toEqual(["s"]);
});

test("the knob follows the finger as far as the stick goes", () => {
  expect(knobAt(3, 4, 80)).toEqual([3, 4]);
  expect(knobAt(0, 160, 80)).toEqual([0, 80]);
  expect(knobAt(0, 0, 80)).toEqual([0, 0]);
});
