import { expect, test } from "vitest";
import { createBody } from "./client";

test("only what was filled in is sent", () => {
  expect(createBody("me", { prompt: "  ", image: null, fps: null })).toEqual({
    identity: "me",
    role: "controller",
    config: {},
  });
  expect(createBody("me", { prompt: " sea ", image: "data:image/png;base64,AA", fps: 24 })).toEqual({
    identity: "me",
    role: "controller",
    prompt: "sea",
    config: { image: "data:image/png;base64,AA", fps: 24 },
  });
});
