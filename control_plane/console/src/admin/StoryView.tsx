/** What became of one session, why does it wait, and where did its time go? */
import { useEffect, useState } from "react";
import { ApiFault, asFault } from "../client/fault";
import { count, finely, phaseWords, shortId, wallClock } from "../words/operator";
import { spell } from "../words/time";
import { readStory } from "./orders";
import type { SlotHolder, Story, WaitsFor } from "./types";

const HOLDERS_SHOWN = 6;

interface Props {
  readonly sessionId: string;
  /** Told anew when this changes. */
  readonly version: string;
  /** Null: there's nothing to end any more. */
  readonly onCancel: (() => void) | null;
}

export function StoryView({ sessionId, version, onCancel }: Props) {
  const [told, setTold] = useState<Story | ApiFault | null>(null);
  useEffect(() => {
    let over = false;
    void readStory(sessionId)
      .catch(asFault)
      .then((story) => {
        if (!over) setTold(story);
      });
    return () => {
      over = true;
    };
  }, [sessionId, version]);
  return (
    <div className="details story">
      <p className="id whole">{sessionId}</p>
      {told === null && <p className="muted">Looking it up…</p>}
      {told instanceof ApiFault && <p className="tone-bad">▲ {told.message}</p>}
      {told !== null && !(told instanceof ApiFault) && <Told story={told} />}
      {onCancel !== null && (
        <div className="acts">
          <button type="button" onClick={onCancel}>
            End this session…
          </button>
        </div>
      )}
    </div>
  );
}

function Told({ story }: { story: Story }) {
  const error = story.session?.error;
  return (
    <>
      {story.ended_because !== null && story.session?.ended_at != null && (
        <p>It ended because {story.ended_because}.</p>
      )}
      {error && <p className="error">{error}</p>}
      {story.waits_for !== null && <Waits waits={story.waits_for} />}
      <div className="told">
        <div>
          <h3>What happened</h3>
          {!story.complete && <p className="muted">The beginning is no longer known.</p>}
          <ol className="steps">
            {story.steps.map((step, index) => (
              <li key={`${step.at} ${index}`}>
                <time>{wallClock(step.at)}</time>
                <span className="num muted">{step.lasted_s === null ? "" : finely(step.lasted_s)}</span>
                <span>{step.says}</span>
              </li>
            ))}
          </ol>
        </div>
        <div>
          <h3>Where the time went</h3>
          <Spent spent={story.spent_s} />
        </div>
      </div>
    </>
  );
}

function Spent({ spent }: { spent: Readonly<Record<string, number>> }) {
  const parts = Object.entries(spent).filter(([, seconds]) => seconds > 0);
  const longest = Math.max(1, ...parts.map(([, seconds]) => seconds));
  return (
    <dl className="spent">
      {parts.map(([phase, seconds]) => (
        <div key={phase}>
          <dt>{phaseWords(phase)}</dt>
          <dd className="num">{finely(seconds)}</dd>
          <dd className="meter" aria-hidden="true">
            <span style={{ width: `${(100 * seconds) / longest}%` }} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Waits({ waits }: { waits: WaitsFor }) {
  const ahead = waits.position - 1;
  return (
    <div>
      <h3>Why it waits</h3>
      <p>
        {ahead === 0 ? "Nobody is ahead of it. " : `${count(ahead, "session is", "sessions are")} ahead of it. `}
        {waits.a_slot_is_free
          ? "A slot is free: whoever is first gets it in this moment."
          : waits.slots === 0
            ? "No node takes sessions."
            : `${waits.slots_taken} of ${count(waits.slots, "slot is", "slots are")} taken:`}
      </p>
      <ul className="holders">
        {waits.holders.slice(0, HOLDERS_SHOWN).map((one) => (
          <li key={`${one.node_id} ${one.session_id}`}>{holderWords(one)}</li>
        ))}
        {waits.holders.length > HOLDERS_SHOWN && (
          <li className="muted">… and {waits.holders.length - HOLDERS_SHOWN} more</li>
        )}
        {waits.closed.map((closed) => (
          <li key={closed}>
            <span className="tone-attention">▲</span> {closed}
          </li>
        ))}
      </ul>
    </div>
  );
}

function holderWords(holder: SlotHolder): string {
  const held = holder.held_s === null ? "" : ` for ${spell(holder.held_s)}`;
  const name = shortId(holder.session_id);
  if (holder.quarantined) return `${holder.node_id}: ${name} isn't confirmed as gone${held}`;
  const room =
    holder.people === 0
      ? `, room empty${holder.empty_s === null ? "" : ` for ${spell(holder.empty_s)}`}`
      : "";
  return `${holder.node_id}: ${name}${held}${room}`;
}
