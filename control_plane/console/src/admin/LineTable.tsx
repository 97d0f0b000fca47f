/** Who waits, where, since when and for how long still? */
import { useState } from "react";
import { cancelQuestion } from "../words/questions";
import { rangeWords, shortId } from "../words/operator";
import { ordinal } from "../words/place";
import { spell } from "../words/time";
import type { Asked } from "./Ask";
import { OpenRow } from "./OpenRow";
import { cancel } from "./orders";
import { StoryView } from "./StoryView";
import type { PlaceSight, PoolSight } from "./types";

interface Props {
  readonly pool: PoolSight;
  readonly at: number;
  readonly identities: boolean;
  onIdentities(shown: boolean): void;
  onAsk(asked: Asked): void;
}

export function LineTable({ pool, at, identities, onIdentities, onAsk }: Props) {
  const [open, setOpen] = useState<string | null>(null);
  const { line, counts } = pool;
  const columns = identities ? 5 : 4;
  const more = counts.waiting - line.length;
  return (
    <section className="panel line" aria-label="Line">
      <header>
        <h2>Line</h2>
        <span className="muted">{counts.waiting.toLocaleString("en")} waiting</span>
        <label className="switch">
          <input
            type="checkbox"
            checked={identities}
            onChange={(event) => onIdentities(event.target.checked)}
          />
          Show identities
        </label>
      </header>
      {line.length === 0 ? (
        <p className="empty">Nobody waits.</p>
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Place</th>
                <th scope="col">Session</th>
                <th scope="col" className="num">
                  Age
                </th>
                <th scope="col" className="num">
                  Estimate
                </th>
                {identities && <th scope="col">Identity</th>}
              </tr>
            </thead>
            <tbody>
              {line.map((place) => (
                <OpenRow
                  key={place.session_id}
                  label={`${ordinal(place.position)} in line, session ${shortId(place.session_id)}`}
                  open={open === place.session_id}
                  columns={columns}
                  onToggle={() => setOpen(open === place.session_id ? null : place.session_id)}
                  first={place.position}
                  below={
                    <StoryView
                      sessionId={place.session_id}
                      version={`${place.position} ${place.attempt}`}
                      onCancel={() => onAsk(askToCancel(place, pool))}
                    />
                  }
                >
                  <td className="id" title={place.session_id}>
                    {shortId(place.session_id)}
                    {place.attempt > 1 && <span className="tag">back</span>}
                  </td>
                  <td className="num">{spell(at - place.created_at)}</td>
                  <td className="num muted">{rangeWords(place.estimated_wait_range_s)}</td>
                  {identities && <td className="identity">{place.identity}</td>}
                </OpenRow>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more > 0 && <p className="more">… and {more.toLocaleString("en")} more behind them</p>}
    </section>
  );
}

function askToCancel(place: PlaceSight, pool: PoolSight): Asked {
  const question = cancelQuestion({
    name: shortId(place.session_id),
    position: place.position,
    people: null,
    waiting: pool.counts.waiting,
  });
  return { question: () => question, act: () => cancel(place.session_id) };
}
