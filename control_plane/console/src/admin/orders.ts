/** How does an operator ask for more, and have something done? */

import { call } from "../client/http";
import { loadKey } from "../memory/key";
import type { NodeSeen, Story } from "./types";

const TIMEOUT_MS = 8_000;

function ask<Answer>(method: "GET" | "POST" | "PUT", path: string, body?: unknown): Promise<Answer> {
  const sent = body === undefined ? {} : { body };
  return call("", { method, path, timeoutMs: TIMEOUT_MS, bearer: loadKey(), ...sent });
}

function nodePath(nodeId: string, order: string, pool: string): string {
  return `/v1/nodes/${encodeURIComponent(nodeId)}${order}?pool=${encodeURIComponent(pool)}`;
}

function sessionPath(sessionId: string, what: string): string {
  return `/v1/stream/sessions/${encodeURIComponent(sessionId)}/${what}`;
}

export const readNode = (pool: string, nodeId: string): Promise<NodeSeen> =>
  ask("GET", nodePath(nodeId, "", pool));

export const readStory = (sessionId: string): Promise<Story> =>
  ask("GET", sessionPath(sessionId, "story"));

export const cancel = (sessionId: string): Promise<unknown> =>
  ask("POST", sessionPath(sessionId, "cancel"));

/** Orders name the sight that they were given on. */
export const drain = (seen: NodeSeen, inS: number | null): Promise<NodeSeen> =>
  ask("POST", nodePath(seen.node.node_id, "/drain", seen.pool), {
    version: seen.node.version,
    in_s: inS,
  });

export const resume = (seen: NodeSeen): Promise<NodeSeen> =>
  ask("POST", nodePath(seen.node.node_id, "/resume", seen.pool), { version: seen.node.version });

export const limit = (seen: NodeSeen, capacity: number | null): Promise<NodeSeen> =>
  ask("PUT", nodePath(seen.node.node_id, "/capacity", seen.pool), {
    version: seen.node.version,
    capacity,
  });
