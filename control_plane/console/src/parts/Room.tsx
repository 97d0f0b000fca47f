/** The dim room around a card: the mark, whose lamp shows the state, and a line at the bottom. */
import type { ReactNode } from "react";
import { SHAPES, type Tone } from "../words/states";

interface Props {
  readonly lamp: Tone;
  readonly under?: ReactNode;
  readonly children: ReactNode;
}

export function Room({ lamp, under, children }: Props) {
  return (
    <main className="room">
      <div className="mark">
        <span className={`tone-${lamp}`} aria-hidden="true">
          {SHAPES[lamp]}
        </span>
        Greenroom
      </div>
      {children}
      <div className="under">{under}</div>
    </main>
  );
}
