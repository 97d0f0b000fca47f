/**
 * Whose video is played?
 *
 * Two workers can be in one room: a frozen one may wake and publish again after its session has moved
 * on (R1). So the page plays only the worker that the API names: its node and epoch, and of several
 * joins within that epoch the latest. The name alone isn't enough; a signed attribute that says
 * anything but "worker" rules a participant out.
 */

export interface Owner {
  readonly nodeId: string;
  readonly epoch: number;
}

export interface Somebody {
  readonly identity: string;
  /** The signed `gr.role`, if the participant has one. */
  readonly role: string | undefined;
}

const WORKER = /^telefuser-(.+)-(\d{1,15})-(\d{1,6})$/;

/** Somebody with a link alone can't ask the API: the room's own latest worker, by its signed role. */
export type Wanted = Owner | "latest" | null;

interface Join {
  readonly nodeId: string;
  readonly epoch: number;
  readonly attempt: number;
}

function joinOf({ identity }: Somebody): Join | null {
  const [, nodeId, epoch, attempt] = WORKER.exec(identity) ?? [];
  if (nodeId === undefined) return null;
  return { nodeId, epoch: Number(epoch), attempt: Number(attempt) };
}

function isWanted(somebody: Somebody, join: Join, wanted: Wanted): boolean {
  if (wanted === null) return false;
  if (wanted === "latest") return somebody.role === "worker";
  if (somebody.role !== undefined && somebody.role !== "worker") return false;
  return join.nodeId === wanted.nodeId && join.epoch === wanted.epoch;
}

export function chooseWorker<Kind extends Somebody>(
  room: Iterable<Kind>,
  wanted: Wanted,
): Kind | null {
  let chosen: { somebody: Kind; join: Join } | null = null;
  for (const somebody of room) {
    const join = joinOf(somebody);
    if (join === null || !isWanted(somebody, join, wanted)) continue;
    if (chosen === null || isLater(join, chosen.join)) chosen = { somebody, join };
  }
  return chosen?.somebody ?? null;
}

function isLater(one: Join, other: Join): boolean {
  return one.epoch === other.epoch ? one.attempt > other.attempt : one.epoch > other.epoch;
}

/** Workers of any epoch: they are neither counted nor shown as people. */
export function looksLikeWorker(somebody: Somebody): boolean {
  return somebody.role === undefined ? WORKER.test(somebody.identity) : somebody.role === "worker";
}
