/**
 * Is a session that the API doesn't know really gone?
 *
 * Not at once: after a loss of the registry's data, nodes bring back the sessions that they play
 * within a few seconds. So somebody on stage waits a little; somebody in line would wait in vain.
 */

const PATIENT_FOR_MS = 10_000;

export class Patience {
  private missingSince: number | null = null;

  /** The API knows the session. */
  found(): void {
    this.missingSince = null;
  }

  /** The API doesn't know it; returns whether to give up. */
  missing(now: number, wasOnStage: boolean): boolean {
    this.missingSince ??= now;
    return !wasOnStage || now - this.missingSince >= PATIENT_FOR_MS;
  }
}
