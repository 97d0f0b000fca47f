/**
 * What does the operator's feed tell?
 *
 * Times are float Unix seconds of the registry's server; `null` stands for what isn't known or
 * doesn't apply. See `control_plane/operator_shapes.py`.
 */

export interface Gpu {
  readonly number: number;
  readonly name: string;
  readonly used_mib: number | null;
  readonly total_mib: number | null;
  readonly busy_percent: number | null;
  readonly temperature_c: number | null;
  readonly ecc_errors: number | null;
  readonly xid: number | null;
  readonly trouble: string;
}

/** What of a node moves all the time. */
export interface NodeGauges {
  readonly beat_at: number;
  readonly troubles: readonly string[];
  readonly gpus: readonly Gpu[];
  /** Sessions that wait for a turn on a shared model; null where they don't take turns. */
  readonly lease_waiting: number | null;
  /** Of a session, on average; null while nothing is played. */
  readonly fps: number | null;
  /** How late 95 % of the frames leave at most. */
  readonly late_p95_s: number | null;
}

export interface NodeSight extends NodeGauges {
  readonly node_id: string;
  /** What an order names that is given after this sight. */
  readonly version: string;
  readonly state: string;
  readonly judged: string;
  readonly admin: string;
  readonly draining: boolean;
  readonly media_ok: boolean;
  readonly moves_at: number | null;
  readonly capacity: number;
  readonly reported_capacity: number;
  readonly admin_capacity: number | null;
  readonly used: number;
  readonly quarantined: number;
  readonly sessions: readonly string[];
  readonly service: string;
  readonly mode: string;
  readonly release: string;
  readonly host: string;
  readonly registered_at: number | null;
}

export interface SessionSight {
  readonly session_id: string;
  readonly identity: string | null;
  readonly state: string;
  readonly node_id: string | null;
  readonly attempt: number;
  readonly epoch: number;
  readonly people: number | null;
  readonly created_at: number | null;
  readonly admitted_at: number | null;
  readonly first_frame_at: number | null;
  readonly ended_at: number | null;
  readonly reason: string | null;
  readonly error: string | null;
}

/** What of a place in line moves all the time. */
export interface PlaceGauges {
  readonly estimated_wait_s: number | null;
  readonly estimated_wait_range_s: readonly [number, number] | null;
}

export interface PlaceSight extends PlaceGauges {
  readonly position: number;
  readonly session_id: string;
  readonly identity: string | null;
  readonly waiting_since: number;
  readonly created_at: number;
  readonly attempt: number;
  readonly returned_because: string | null;
}

export interface Counts {
  readonly waiting: number;
  readonly waiting_since: number | null;
  readonly sessions: Readonly<Record<string, number>>;
  readonly nodes: Readonly<Record<string, number>>;
  readonly nodes_closed: number;
  readonly slots: number;
  readonly slots_taken: number;
  readonly quarantined: number;
  readonly failed: number;
  readonly nodes_lost: number;
  readonly counted_since: number;
}

export interface PoolSight {
  readonly pool: string;
  readonly max_waiting: number;
  readonly counts: Counts;
  readonly line: readonly PlaceSight[];
  readonly nodes: readonly NodeSight[];
  readonly sessions: readonly SessionSight[];
}

export interface Overview {
  readonly at: number;
  readonly pools: readonly PoolSight[];
}

/** What moves all the time, between two overviews. */
export interface Moving {
  readonly at: number;
  readonly pools: readonly {
    readonly pool: string;
    readonly nodes: readonly (NodeGauges & { readonly node_id: string })[];
    readonly line: readonly (PlaceGauges & { readonly session_id: string })[];
  }[];
}

/** One node, and whom an order for it would touch. */
export interface NodeSeen {
  readonly pool: string;
  readonly node: NodeSight;
  readonly playing: number;
  readonly free_elsewhere: number;
  readonly waiting: number;
}

export interface StoryStep {
  readonly at: number;
  readonly what: string;
  readonly says: string;
  readonly lasted_s: number | null;
}

export interface SlotHolder {
  readonly node_id: string;
  readonly session_id: string;
  readonly state: string | null;
  readonly quarantined: boolean;
  readonly held_s: number | null;
  readonly people: number | null;
  readonly empty_s: number | null;
}

export interface WaitsFor {
  readonly position: number;
  readonly ahead: readonly string[];
  readonly slots: number;
  readonly slots_taken: number;
  readonly a_slot_is_free: boolean;
  readonly holders: readonly SlotHolder[];
  readonly closed: readonly string[];
}

export interface Story {
  readonly session_id: string;
  readonly session: SessionSight | null;
  readonly ended_because: string | null;
  readonly waits_for: WaitsFor | null;
  readonly steps: readonly StoryStep[];
  readonly complete: boolean;
  readonly spent_s: Readonly<Record<string, number>>;
}
