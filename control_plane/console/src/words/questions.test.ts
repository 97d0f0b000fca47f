import { expect, test } from "vitest";
import type { NodeSeen, NodeSight } from "../admin/types";
import { cancelQuestion, capacityQuestion, drainQuestion, resumeQuestion } from "./questions";

function seen(node: Partial<NodeSight> = {}, around: Partial<NodeSeen> = {}): NodeSeen {
  const whole = { node_id: "n1", capacity: 4, reported_capacity: 4, used: 3, moves_at: null, ...node };
  return {
    pool: "default",
    node: whole as NodeSight,
    playing: 3,
    free_elsewhere: 0,
    waiting: 5,
    ...around,
  };
}

test("a drain says that those who play stay, and that nobody new comes", () => {
  const { says, yes } = drainQuestion(seen(), null);
  expect(says).toEqual([
    "n1 is given no new sessions until somebody resumes it.",
    "3 people on it play on until they end it.",
  ]);
  expect(yes).toBe("Drain it");
  expect(drainQuestion(seen({}, { playing: 0 }), 60).says[1]).toBe(
    "Nobody is on it now, so nobody is touched.",
  );
});

test("a countdown says who moves when, and who will have to wait", () => {
  const short = drainQuestion(seen({}, { free_elsewhere: 1 }), 90);
  expect(short.says.slice(1)).toEqual([
    "3 people on it are moved to other nodes in 1 m 30 s, after a countdown on their pages. They keep their places, rooms and links.",
    "Only 1 slot is free elsewhere: 2 people will have to wait, ahead of the 5 who wait now.",
  ]);
  expect(short.yes).toBe("Drain it in 1 m 30 s");
  const enough = drainQuestion(seen({}, { playing: 1, free_elsewhere: 2 }), 0);
  expect(enough.says[1]).toContain("1 person on it is moved to other nodes now.");
  expect(enough.says[2]).toBe("2 slots are free elsewhere: enough.");
  expect(drainQuestion(seen({}, { waiting: 0 }), 9).says[2]).toBe(
    "No slot is free elsewhere: 3 people will have to wait.",
  );
});

test("a resume says who can come on, and what is called off", () => {
  expect(resumeQuestion(seen({ moves_at: 7 })).says.slice(1)).toEqual([
    "The countdown is called off: 3 people on it stay.",
    "1 person of the 5 in line can come on at once.",
  ]);
});

test("a limit says that nobody is stopped, and when somebody new comes", () => {
  expect(capacityQuestion(seen(), 2).says).toEqual([
    "n1 uses 2 of the 4 slots that it offers.",
    "Nobody is stopped: 3 people on it play on, nobody new comes until 2 of them have left.",
  ]);
  expect(capacityQuestion(seen(), 0).says[1]).toBe(
    "Nobody is stopped: 3 people on it play on, nobody new comes.",
  );
  expect(capacityQuestion(seen(), 3).says[1]).toContain("until 1 of them has left.");
  expect(capacityQuestion(seen(), null).says).toEqual([
    "n1 uses all 4 slots that it offers.",
    "1 person of the 5 in line can come on at once.",
  ]);
  expect(capacityQuestion(seen({ used: 0 }), 0).says[1]).toBe("Nobody is on it, and nobody comes.");
  expect(capacityQuestion(seen({}, { waiting: 0 }), 4).says[1]).toBe(
    "Nobody who plays or waits is touched.",
  );
});

test("an end says whom it meets", () => {
  const onStage = cancelQuestion({ name: "abc", position: null, people: 3, waiting: 2 });
  expect(onStage.says).toEqual([
    "The person on stage is stopped at once and reads “Ended by the operator”.",
    "2 people who watch see the end of the show.",
    "The slot goes to the first in line.",
  ]);
  const inLine = cancelQuestion({ name: "abc", position: 2, people: null, waiting: 3 });
  expect(inLine.says).toEqual([
    "The person loses the 2nd place in line and reads “Ended by the operator”.",
    "1 person behind moves up.",
  ]);
});
