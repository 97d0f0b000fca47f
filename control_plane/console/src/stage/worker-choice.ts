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

/** The attempt of a worker of *owner*, or null if *somebody* isn't one. */
function attemptOf(somebody: Somebody, owner: Owner): number | null {
  if (somebody.role !== undefined && somebody.role !== "worker") return null;
  const match = WORKER.exec(somebody.identity);
  if (match === null) return null;
  const [, nodeId, epoch, attempt] = match;
  if (nodeId !== owner.nodeId || Number(epoch) !== owner.epoch) return null;
  return Number(attempt);
}

export function chooseWorker<Kind extends Somebody>(
  room: Iterable<Kind>,
  owner: Owner | null,
): Kind | null {
  if (owner === null) return null;
  let chosen: Kind | null = null;
  let highest = -1;
  for (const somebody of room) {
    const attempt = attemptOf(somebody, owner);
    if (attempt !== null && attempt > highest) {
      chosen = somebody;
      highest = attempt;
    }
  }
  return chosen;
}

/** Workers of any epoch: they are neither counted nor shown as people. */
export function looksLikeWorker(somebody: Somebody): boolean {
  return somebody.role === undefined ? WORKER.test(somebody.identity) : somebody.role === "worker";
}
