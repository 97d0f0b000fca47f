/** What does somebody see in line? The place, larger than anything else, and that it is kept. */
import { Heading } from "../parts/Heading";
import { Room } from "../parts/Room";
import { useHealth } from "../parts/use-health";
import { useNow } from "../parts/use-now";
import type { View } from "../player/view";
import { estimate, placeInLine, youAre } from "../words/place";
import { statusWords, UNREACHABLE } from "../words/states";
import { spell } from "../words/time";

interface Props {
  readonly view: View;
  onLeave(): void;
  onPlayHere(): void;
}

export function WaitingPage({ view, onLeave, onPlayHere }: Props) {
  const now = useNow();
  const { health } = useHealth();
  const { record } = view;
  const position = record?.queue_position ?? null;
  const words = record === null ? "Finding your place…" : statusWords(record);
  return (
    <Room
      lamp="waiting"
      under={
        <p>
          You can reload this page or let your phone sleep: your place is kept.
          {view.elsewhere && " This session is open in another tab as well; it will play there."}
        </p>
      }
    >
      <section className="card" aria-label="Your place in line">
        <Heading className="place">{position === null ? words : placeInLine(position)}</Heading>
        {view.returned !== null && (
          <p className="say">
            <span className="tone-attention" aria-hidden="true">
              ▲
            </span>
            <span>Your stage was lost (the machine failed). Now {youAre(position)}.</span>
          </p>
        )}
        <Bar progress={view.progress} />
        <dl className="facts">
          <div>
            <dt>Until your turn</dt>
            <dd>{estimate(record?.estimated_wait_s ?? null)}</dd>
          </div>
          <div>
            <dt>In line</dt>
            <dd>{health === null ? "–" : Math.max(health.queued_sessions, position ?? 0)}</dd>
          </div>
          <div>
            <dt>So far</dt>
            <dd>{view.enteredAtMs > 0 ? spell((now - view.enteredAtMs) / 1_000) : "–"}</dd>
          </div>
        </dl>
        {!view.reachable && (
          <p className="say" role="status">
            <span className="tone-attention" aria-hidden="true">
              ▲
            </span>
            {UNREACHABLE}
          </p>
        )}
        <div className="actions">
          {view.elsewhere && (
            <button type="button" className="main" onClick={onPlayHere}>
              Play here instead
            </button>
          )}
          <button type="button" onClick={onLeave} disabled={view.ending}>
            {view.ending ? "Leaving…" : "Leave the line"}
          </button>
        </div>
      </section>
    </Room>
  );
}

function Bar({ progress }: { progress: number }) {
  return (
    <div
      className="bar"
      role="progressbar"
      aria-label="Way to the stage"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(progress * 100)}
    >
      <div style={{ width: `${progress * 100}%` }} />
    </div>
  );
}
