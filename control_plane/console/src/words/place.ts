/** How is a place in line said, and how far has it moved? */

import { spell } from "./time";

export function ordinal(position: number): string {
  const tens = position % 100;
  const suffix =
    tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][position % 10] ?? "th");
  return `${position}${suffix}`;
}

export function placeInLine(position: number): string {
  return `${ordinal(position)} in line`;
}

/** As part of a sentence: "you're first in line", "you're 2nd in line". */
export function youAre(position: number | null): string {
  if (position === null) return "you're in line";
  return position === 1 ? "you're first in line" : `you're ${placeInLine(position)}`;
}

export function waiting(people: number): string {
  return people === 1 ? "1 person waiting" : `${people} people waiting`;
}

export function estimate(seconds: number | null): string {
  return seconds === null ? "no estimate yet" : `about ${spell(seconds)}`;
}

/**
 * Share of the way from the first place to the stage, 0 to 1.
 *
 * The caller keeps the largest value seen: somebody who comes back from a lost stage with an older
 * ticket may stand in front, but the bar never moves backwards.
 */
export function progress(firstPosition: number, position: number): number {
  if (firstPosition < 1) return 0;
  return Math.min(1, Math.max(0, (firstPosition - position) / firstPosition));
}
