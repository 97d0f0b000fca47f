/**
 * What do the API's requests and answers look like?
 *
 * Only the fields that clients read. Times are float Unix seconds, as the API sends them.
 */

export type SessionStatus =
  | "queued"
  | "assigned"
  | "joining_room"
  | "starting_pipeline"
  | "running"
  | "draining"
  | "closed"
  | "expired"
  | "failed";

const ENDED: readonly SessionStatus[] = ["closed", "expired", "failed"];
const ON_STAGE: readonly SessionStatus[] = [
  "assigned",
  "joining_room",
  "starting_pipeline",
  "running",
];

export function hasEnded(status: SessionStatus): boolean {
  return ENDED.includes(status);
}

/** A slot is held and the session isn't ending: the room may be joined. */
export function isOnStage(status: SessionStatus): boolean {
  return ON_STAGE.includes(status);
}

/** What may be asked for; `config` is the service's own. */
export interface SessionRequest {
  /** Who plays; the same name may have several sessions. */
  readonly identity: string;
  readonly prompt?: string;
  /** Below the node's asset folder. */
  readonly image_path?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly pool?: string;
}

export interface CreateAnswer {
  readonly session_id: string;
  readonly room: string;
  readonly livekit_url: string;
  /** LiveKit token of the controller; null when the session of this key has ended already. */
  readonly token: string | null;
  readonly status: SessionStatus;
  readonly queue_position: number | null;
  readonly estimated_wait_s?: number | null;
  readonly session_token: string;
}

export interface SessionRecord {
  readonly session_id: string;
  readonly room: string;
  readonly livekit_url: string;
  readonly status: SessionStatus;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly error: string | null;
  readonly reason: string | null;
  readonly queue_position: number | null;
  readonly estimated_wait_s?: number | null;
  /** 1 + how often the session was returned to the line. */
  readonly attempt: number;
  readonly epoch: number | null;
  readonly node_id: string | null;
}

export interface TokenAnswer {
  readonly livekit_url: string;
  readonly room: string;
  readonly token: string;
}

export interface Health {
  readonly status: "healthy" | "degraded" | "unhealthy";
  readonly workers_total: number;
  readonly workers_idle: number;
  readonly queued_sessions: number;
  /** Slots of the live nodes, where the replica counts them. */
  readonly slots_total?: number;
  readonly slots_free?: number;
}

export interface Metadata {
  readonly pipeline_file?: string | null;
  readonly default_fps?: number | null;
  readonly livekit_url?: string;
  /** The server wants a key, or a session's token. */
  readonly closed?: boolean;
}
