/** Who is on stage, where and since when; and how did the last ones end? */
import { useState } from "react";
import { Sign } from "../parts/Sign";
import { finely, hasStage, reasonWords, sessionSign, shortId } from "../words/operator";
import { cancelQuestion } from "../words/questions";
import { spell } from "../words/time";
import type { Asked } from "./Ask";
import { OpenRow } from "./OpenRow";
import { cancel } from "./orders";
import { StoryView } from "./StoryView";
import type { PoolSight, SessionSight } from "./types";

interface Props {
  readonly pool: PoolSight;
  readonly at: number;
  readonly identities: boolean;
  onAsk(asked: Asked): void;
}

export function SessionTable({ pool, at, identities, onAsk }: Props) {
  const [open, setOpen] = useState<string | null>(null);
  const sessions = pool.sessions.filter((one) => one.state !== "queued");
  const shown = sessions.filter(hasStage).length;
  const total = Object.entries(pool.counts.sessions)
    .filter(([state]) => state !== "queued")
    .reduce((sum, [, number]) => sum + number, 0);
  return (
    <section className="panel" aria-label="Sessions">
      <header>
        <h2>Sessions</h2>
        <span className="muted">
          {total.toLocaleString("en")} on stage
          {shown < total && `, the newest ${shown} of them here`}
          {sessions.length > shown && `, ${sessions.length - shown} ended lately`}
        </span>
      </header>
      {sessions.length === 0 ? (
        <p className="empty">Nobody is on stage.</p>
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Session</th>
                <th scope="col">Node</th>
                <th scope="col" className="num">
                  Attempt
                </th>
                <th scope="col" className="num">
                  Age
                </th>
                <th scope="col" className="num">
                  First frame
                </th>
                <th scope="col">{identities ? "Identity" : "End"}</th>
              </tr>
            </thead>
            <tbody>
              {sessions.map((session) => (
                <OpenRow
                  key={session.session_id}
                  label={`Session ${shortId(session.session_id)}, ${sessionSign(session).words}`}
                  open={open === session.session_id}
                  columns={7}
                  quiet={!hasStage(session)}
                  onToggle={() => setOpen(open === session.session_id ? null : session.session_id)}
                  first={<Sign sign={sessionSign(session)} />}
                  below={
                    <StoryView
                      sessionId={session.session_id}
                      version={`${session.state} ${session.epoch} ${session.first_frame_at}`}
                      onCancel={hasStage(session) ? () => onAsk(askToCancel(session, pool)) : null}
                    />
                  }
                >
                  <SessionCells session={session} at={at} identities={identities} />
                </OpenRow>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

interface CellsProps {
  readonly session: SessionSight;
  readonly at: number;
  readonly identities: boolean;
}

function SessionCells({ session, at, identities }: CellsProps) {
  const { created_at: created, ended_at: ended, admitted_at: admitted } = session;
  const end = ended ?? at;
  const toFrame =
    session.first_frame_at === null || admitted === null ? null : session.first_frame_at - admitted;
  return (
    <>
      <td className="id" title={session.session_id}>
        {shortId(session.session_id)}
      </td>
      <td className="name">{session.node_id ?? "–"}</td>
      <td className="num">{session.attempt}</td>
      <td className="num">{created === null ? "–" : spell(end - created)}</td>
      <td className="num">{toFrame === null ? "–" : finely(toFrame)}</td>
      <td className={identities ? "identity" : "reason"}>
        {identities ? session.identity : reasonWords(session.reason)}
      </td>
    </>
  );
}

function askToCancel(session: SessionSight, pool: PoolSight): Asked {
  const question = cancelQuestion({
    name: shortId(session.session_id),
    position: null,
    people: session.people,
    waiting: pool.counts.waiting,
  });
  return { question: () => question, act: () => cancel(session.session_id) };
}
