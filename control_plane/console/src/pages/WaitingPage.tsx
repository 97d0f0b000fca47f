/** What does somebody see in line? The place, larger than anything else, and that it is kept. */
import { Heading } from "../parts/Heading";
import { Room } from "../parts/Room";
import { useHealth } from "../parts/use-health";
import { useNow } from "../parts/use-now";
import type { View } from "../player/view";
import { estimate, placeInLine, waiting, youAre } from "../words/place";
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
        {record !== null && (
          <p className="estimate">{estimate(record.estimated_wait_s ?? null)}</p>
        )}
        {view.returned !== null && (
          <p className="say">
            <span className="tone-attention" aria-hidden="true">
              ▲
            </span>
            <span>Your stage was lost (the machine failed). Now {youAre(position)}.</span>
          </p>
        )}
        <Bar progress={view.progress} />
        <p className="facts">
          {health !== null && <span>{waiting(Math.max(health.queued_sessions, position ?? 0))}</span>}
          {view.enteredAtMs > 0 && <span>{spell((now - view.enteredAtMs) / 1_000)} so far</span>}
        </p>
        {view.entry.prompt.trim() !== "" && <p className="wish small">“{view.entry.prompt.trim()}”</p>}
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
