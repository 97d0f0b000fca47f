/** What is an operator asked before something is done: what will happen, and to how many? Pure. */

import type { NodeSeen } from "../admin/types";
import { count } from "./operator";
import { ordinal } from "./place";
import { spell } from "./time";

export interface Question {
  readonly title: string;
  readonly says: readonly string[];
  /** What the button says that does it. */
  readonly yes: string;
}

const people = (number: number): string => count(number, "person", "people");

/** *inS*: seconds until those who play move on; null: they play on. */
export function drainQuestion(seen: NodeSeen, inS: number | null): Question {
  const { node, playing } = seen;
  const name = node.node_id;
  const says = [`${name} is given no new sessions until somebody resumes it.`];
  if (playing === 0) says.push("Nobody is on it now, so nobody is touched.");
  else if (inS === null) {
    says.push(`${people(playing)} on it ${playing === 1 ? "plays" : "play"} on until they end it.`);
  } else says.push(...moveWords(seen, inS));
  const when = inS === null || playing === 0 ? "" : inS === 0 ? " now" : ` in ${spell(inS)}`;
  return { title: `Drain ${name}?`, says, yes: `Drain it${when}` };
}

function moveWords({ playing, free_elsewhere: free, waiting }: NodeSeen, inS: number): string[] {
  const when = inS === 0 ? "now" : `in ${spell(inS)}, after a countdown on their pages`;
  const says = [
    `${people(playing)} on it ${playing === 1 ? "is" : "are"} moved to other nodes ${when}. ` +
      "They keep their places, rooms and links.",
  ];
  const stranded = Math.max(0, playing - free);
  if (stranded === 0) says.push(`${count(free, "slot is", "slots are")} free elsewhere: enough.`);
  else {
    const behind = waiting === 0 ? "" : `, ahead of the ${waiting} who wait now`;
    const have = free === 0 ? "No slot is" : `Only ${count(free, "slot is", "slots are")}`;
    says.push(`${have} free elsewhere: ${people(stranded)} will have to wait${behind}.`);
  }
  return says;
}

export function resumeQuestion(seen: NodeSeen): Question {
  const { node, playing, waiting } = seen;
  const name = node.node_id;
  const says = [`${name} is given sessions again, as soon as it has room and is well.`];
  if (node.moves_at !== null && playing > 0) {
    says.push(`The countdown is called off: ${people(playing)} on it ${playing === 1 ? "stays" : "stay"}.`);
  }
  const room = Math.max(0, node.capacity - node.used);
  const next = Math.min(room, waiting);
  if (next > 0) says.push(`${people(next)} of the ${waiting} in line can come on at once.`);
  return { title: `Resume ${name}?`, says, yes: "Resume it" };
}

/** *capacity*: null for as many as the node itself says. */
export function capacityQuestion(seen: NodeSeen, capacity: number | null): Question {
  const { node, waiting } = seen;
  const says: string[] = [];
  const from = node.reported_capacity;
  const allowed = capacity === null ? from : Math.min(capacity, from);
  if (capacity === null) says.push(`${node.node_id} uses all ${count(from, "slot", "slots")} that it offers.`);
  else says.push(`${node.node_id} uses ${allowed} of the ${count(from, "slot", "slots")} that it offers.`);
  says.push(followsFrom(node.used, allowed, waiting));
  return { title: `Slots of ${node.node_id}`, says, yes: capacity === null ? "Use all" : `Use ${allowed}` };
}

function followsFrom(used: number, allowed: number, waiting: number): string {
  const next = Math.min(allowed - used, waiting);
  if (next > 0) return `${people(next)} of the ${waiting} in line can come on at once.`;
  if (used < allowed) return "Nobody who plays or waits is touched.";
  const leave = used - allowed + 1;
  const until =
    allowed === 0 ? "" : ` until ${leave} of them ${leave === 1 ? "has" : "have"} left`;
  if (used === 0) return "Nobody is on it, and nobody comes.";
  return `Nobody is stopped: ${people(used)} on it ${used === 1 ? "plays" : "play"} on, nobody new comes${until}.`;
}

export interface Ending {
  readonly name: string;
  /** Place in line; null for one on stage. */
  readonly position: number | null;
  readonly people: number | null;
  readonly waiting: number;
}

export function cancelQuestion(of: Ending): Question {
  const says: string[] = [];
  if (of.position === null) {
    const others = Math.max(0, (of.people ?? 1) - 1);
    says.push("The person on stage is stopped at once and reads “Ended by the operator”.");
    if (others > 0) says.push(`${people(others)} who ${others === 1 ? "watches" : "watch"} see the end of the show.`);
    if (of.waiting > 0) says.push("The slot goes to the first in line.");
  } else {
    says.push(`The person loses the ${ordinal(of.position)} place in line and reads “Ended by the operator”.`);
    const behind = of.waiting - of.position;
    if (behind > 0) says.push(`${people(behind)} behind ${behind === 1 ? "moves" : "move"} up.`);
  }
  return { title: `End session ${of.name}?`, says, yes: "End it" };
}
