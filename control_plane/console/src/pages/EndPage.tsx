/** What does somebody see at the end? Why, how long, and what now. */
import { Details } from "../parts/Details";
import { Heading } from "../parts/Heading";
import { Room } from "../parts/Room";
import type { Final } from "../player/view";
import { spell } from "../words/time";

interface Props {
  readonly final: Final;
  onAgain(): void;
  onStart(): void;
}

export function EndPage({ final, onAgain, onStart }: Props) {
  const { ending, playedS } = final;
  const facts: [string, string][] = [
    ["Code", final.code],
    ["Session", final.sessionId],
  ];
  if (final.error !== null) facts.push(["Message", final.error]);
  return (
    <Room lamp="ended">
      <section className="card">
        <Heading>{ending.title}</Heading>
        <p className="muted">
          {playedS >= 1 && `You played for ${spell(playedS)}. `}
          {ending.advice}
        </p>
        <div className="actions">
          <button type="button" className="main" onClick={onAgain}>
            Play again
          </button>
          <button type="button" onClick={onStart}>
            Back to start
          </button>
        </div>
        <Details facts={facts} />
      </section>
    </Room>
  );
}
