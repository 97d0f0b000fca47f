/** State and play clock, left in the bar. */
import type { Sign as SignValue } from "../words/states";
import { clock } from "../words/time";
import { Sign } from "./Sign";

interface Props {
  readonly sign: SignValue;
  readonly playedS: number;
}

export function TopSign({ sign, playedS }: Props) {
  return (
    <>
      <Sign sign={sign} />
      {playedS > 0 && (
        <span className="clock" role="timer" aria-label="Play clock">
          {clock(playedS)}
        </span>
      )}
    </>
  );
}
