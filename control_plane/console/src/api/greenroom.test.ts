import { expect, test } from "vitest";
import { requestOf } from "./greenroom";

test("only what was filled in is sent", () => {
  expect(requestOf("me", { prompt: "  ", image: null, fps: null })).toEqual({
    identity: "me",
    config: {},
  });
  expect(requestOf("me", { prompt: " sea ", image: "data:image/png;base64,AA", fps: 24 })).toEqual({
    identity: "me",
    prompt: "sea",
    config: { image: "data:image/png;base64,AA", fps: 24 },
  });
});
