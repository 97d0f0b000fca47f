import { beforeEach, expect, test, vi } from "vitest";
import { forgetPlace, loadAsking, loadPlace, type Place, saveAsking, savePlace } from "./place";

function storage() {
  const kept = new Map<string, string>();
  return {
    kept,
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  };
}

const PLACE: Place = {
  sessionId: "default-a",
  sessionToken: "secret",
  identity: "player-a",
  livekitUrl: "ws://here",
  enteredAtMs: 5,
  firstPosition: 3,
  playedMs: 0,
  prompt: "sea",
  fps: null,
};

let local = storage();

beforeEach(() => {
  local = storage();
  vi.stubGlobal("localStorage", local);
  vi.stubGlobal("sessionStorage", storage());
});

test("a place comes back as it was saved", () => {
  savePlace(PLACE);
  expect(loadPlace()).toEqual(PLACE);
});

test("broken or foreign storage is no place", () => {
  local.kept.set("greenroom.place", "{");
  expect(loadPlace()).toBeNull();
  local.kept.set("greenroom.place", JSON.stringify({ sessionId: 7 }));
  expect(loadPlace()).toBeNull();
  vi.stubGlobal("localStorage", undefined);
  expect(loadPlace()).toBeNull();
});

test("only the session's own place is forgotten", () => {
  savePlace(PLACE);
  forgetPlace("default-b");
  expect(loadPlace()).not.toBeNull();
  forgetPlace("default-a");
  expect(loadPlace()).toBeNull();
});

test("an unanswered request comes back with its key, but not one with a large image", () => {
  const entry = { prompt: "sea", image: null, fps: 24 };
  saveAsking({ key: "k", identity: "player-a", entry });
  expect(loadAsking()).toEqual({ key: "k", identity: "player-a", entry });
  const image = "x".repeat(2_000_000);
  saveAsking({ key: "k", identity: "player-a", entry: { ...entry, image } });
  expect(loadAsking()).toBeNull();
});
