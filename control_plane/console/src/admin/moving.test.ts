import { expect, test } from "vitest";
import { moved } from "./moving";
import type { Moving, Overview } from "./types";

const OVERVIEW = {
  at: 1,
  pools: [
    {
      pool: "default",
      nodes: [{ node_id: "a", state: "busy", beat_at: 1 }, { node_id: "b", state: "idle", beat_at: 1 }],
      line: [{ session_id: "s", position: 1, estimated_wait_s: null }],
    },
    { pool: "other", nodes: [], line: [] },
  ],
} as unknown as Overview;

test("what moves moves, all else stays", () => {
  const by = {
    at: 2,
    pools: [
      {
        pool: "default",
        nodes: [{ node_id: "a", beat_at: 2 }, { node_id: "new", beat_at: 2 }],
        line: [{ session_id: "s", estimated_wait_s: 9 }],
      },
    ],
  } as unknown as Moving;
  const now = moved(OVERVIEW, by);
  expect(now.at).toBe(2);
  expect(now.pools[0]?.nodes).toEqual([
    { node_id: "a", state: "busy", beat_at: 2 },
    { node_id: "b", state: "idle", beat_at: 1 },
  ]);
  expect(now.pools[0]?.line[0]).toMatchObject({ position: 1, estimated_wait_s: 9 });
  expect(now.pools[1]).toBe(OVERVIEW.pools[1]);
});
