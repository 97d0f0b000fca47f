import { expect, test } from "vitest";
import { Patience } from "./patience";

test("somebody in line is told at once, somebody on stage waits for the node to bring it back", () => {
  expect(new Patience().missing(0, false)).toBe(true);
  const patience = new Patience();
  expect(patience.missing(0, true)).toBe(false);
  expect(patience.missing(9_000, true)).toBe(false);
  patience.found();
  expect(patience.missing(12_000, true)).toBe(false);
  expect(patience.missing(22_000, true)).toBe(true);
});
