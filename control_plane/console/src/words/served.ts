/** What is served here, and is there room? One muted line under the start card. Pure. */

import type { Health, Metadata } from "../client/types";
import { waiting } from "./place";
import { UNREACHABLE } from "./states";

export interface ServedFacts {
  readonly health: Health | null;
  readonly metadata: Metadata | null;
  readonly reachable: boolean;
}

/** "worlds/demo_world.py" is served as "demo_world". */
function serviceName(file: string): string {
  return (file.split("/").at(-1) ?? file).replace(/\.py$/, "");
}

function room(health: Health): string {
  if (health.queued_sessions > 0) return waiting(health.queued_sessions);
  if (health.status === "unhealthy") return "no stage is ready yet";
  const { slots_free: free, slots_total: total } = health;
  if (free !== undefined && total !== undefined) return `${free} of ${total} stages free`;
  return health.workers_idle > 0 ? "a stage is free" : "nobody waiting";
}

export function servedLine({ health, metadata, reachable }: ServedFacts): string {
  if (!reachable) return UNREACHABLE;
  if (health === null) return "";
  const file = metadata?.pipeline_file;
  return [file ? serviceName(file) : null, room(health)].filter(Boolean).join(" · ");
}
