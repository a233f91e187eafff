/** How long to wait before a server that ended is started again. */

const FIRST_SECONDS = 0.5;
const LONGEST_SECONDS = 60;
/** A server that ran so long was well: what ended it is no loop. */
const WELL_AFTER_SECONDS = 60;

/** Grows with each end that follows a short life, from half a second to a minute. */
export class Backoff {
  private ends = 0;

  /** How many ends in a row followed a short life. */
  get count(): number {
    return this.ends;
  }

  /** Notes that a server ended after so many seconds; gives how many to wait. */
  ended(livedSeconds: number): number {
    this.ends = livedSeconds >= WELL_AFTER_SECONDS ? 1 : this.ends + 1;
    return Math.min(FIRST_SECONDS * 2 ** (this.ends - 1), LONGEST_SECONDS);
  }

  reset(): void {
    this.ends = 0;
  }
}
