/** Which words and which shape tell an operator how something stands? Pure. As at the command line. */

import type { NodeSight, SessionSight } from "../admin/types";
import type { Sign } from "./states";
import { spell } from "./time";

/** A node beats every two seconds; after so many without one it is said to be silent. */
const SILENT_AFTER_S = 7;

const SESSION_SIGNS: Readonly<Record<string, Sign>> = {
  queued: { tone: "waiting", words: "in line" },
  assigned: { tone: "starting", words: "setting up" },
  joining_room: { tone: "starting", words: "setting up" },
  starting_pipeline: { tone: "starting", words: "starting" },
  running: { tone: "live", words: "on stage" },
  draining: { tone: "ended", words: "ending" },
  closed: { tone: "ended", words: "ended" },
  expired: { tone: "ended", words: "ended" },
  failed: { tone: "attention", words: "failed" },
};

export function sessionSign(session: SessionSight): Sign {
  if (session.state === "running" && session.first_frame_at === null) {
    return { tone: "starting", words: "no frame yet" };
  }
  return SESSION_SIGNS[session.state] ?? { tone: "attention", words: session.state };
}

export function hasStage(session: SessionSight): boolean {
  return !["queued", "closed", "expired", "failed"].includes(session.state);
}

const NODE_SIGNS: Readonly<Record<string, Sign>> = {
  loading: { tone: "starting", words: "loading" },
  idle: { tone: "waiting", words: "idle" },
  busy: { tone: "live", words: "busy" },
  error: { tone: "attention", words: "error" },
  dead: { tone: "ended", words: "dead" },
};

/** What an operator must know first: what is wrong, then what was ordered, then what it does. */
export function nodeSign(node: NodeSight, now: number): Sign {
  const known = NODE_SIGNS[node.state] ?? { tone: "attention", words: node.state };
  if (node.state === "error" || node.state === "dead") return known;
  if (now - node.beat_at > SILENT_AFTER_S) return { tone: "attention", words: "silent" };
  if (!node.media_ok) return { tone: "attention", words: "no LiveKit" };
  if (node.judged === "suspect") return { tone: "attention", words: "suspect" };
  if (node.admin === "draining") return { tone: "waiting", words: "drained" };
  if (node.draining) return { tone: "waiting", words: "shuts down" };
  return known;
}

const REASONS: Readonly<Record<string, string>> = {
  client_stop: "the client ended it",
  completed: "the show was over",
  admin: "an operator ended it",
  node_shutdown: "the machine was taken down",
  session_timeout: "its time was up",
  controller_timeout: "its player was away",
  room_empty: "everyone had left",
  queue_abandoned: "it left the line",
  pause_timeout: "the pause was too long",
  talk_timeout: "the talk's time was up",
  context_full: "the talk became too long",
  join_timeout: "no node got into its room",
  start_timeout: "the world didn't start",
  recovery_limit: "it kept crashing nodes",
  service_error: "the world broke",
  livekit_error: "the video connection broke",
  invalid_config: "the world refused its settings",
};

export function reasonWords(reason: string | null): string {
  return reason === null ? "" : (REASONS[reason] ?? reason);
}

const PHASES: Readonly<Record<string, string>> = {
  waiting: "in line",
  joining: "set up",
  starting: "starting",
  to_first_frame: "to first frame",
  played: "played",
  ending: "ending",
};

export function phaseWords(phase: string): string {
  return PHASES[phase] ?? phase;
}

/** The end of a session's id tells it apart; the whole is in its story. */
export function shortId(sessionId: string): string {
  return sessionId.slice(sessionId.lastIndexOf("-") + 1).slice(0, 8);
}

export function count(number: number, one: string, many: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** "4 s" or "40 s – 2 m 5 s"; nothing is promised without grounds. */
export function rangeWords(range: readonly [number, number] | null): string {
  if (range === null) return "no estimate";
  const [low, high] = range;
  return spell(low) === spell(high) ? spell(low) : `${spell(low)} – ${spell(high)}`;
}

export function gib(mib: number): string {
  return (mib / 1024).toFixed(0);
}

/** Tenths for what is short, as people compare it. */
export function finely(seconds: number): string {
  return seconds < 10 ? `${Math.max(0, seconds).toFixed(1)} s` : spell(seconds);
}

export function wallClock(at: number): string {
  return new Date(at * 1_000).toLocaleTimeString("en-GB");
}
