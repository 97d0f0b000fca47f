/** Ask once, in words that say what will happen; then do it. */
import { type FormEvent, useEffect, useRef, useState } from "react";
import { ApiFault, asFault } from "../client/fault";
import type { Question } from "../words/questions";
import type { NodeSeen } from "./types";

interface NumberField {
  readonly label: string;
  /** Null: empty. */
  readonly initial: number | null;
  readonly most: number;
}

/** A question about a node looks at it first, so that the words fit what is there now. */
export type Asked =
  | {
      readonly look: () => Promise<NodeSeen>;
      readonly field?: NumberField;
      readonly question: (seen: NodeSeen, number: number | null) => Question;
      readonly act: (seen: NodeSeen, number: number | null) => Promise<unknown>;
    }
  | {
      readonly look?: undefined;
      readonly field?: undefined;
      readonly question: () => Question;
      readonly act: () => Promise<unknown>;
    };

interface Props {
  readonly asked: Asked;
  onClose(): void;
  onRefused(fault: ApiFault): void;
}

export function Ask({ asked, onClose, onRefused }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [seen, setSeen] = useState<NodeSeen | null>(null);
  const [fault, setFault] = useState<ApiFault | null>(null);
  const [busy, setBusy] = useState(false);
  const [number, setNumber] = useState(asked.field?.initial?.toString() ?? "");
  const given = number === "" ? null : Number(number);

  const refuse = (refusal: ApiFault): void => {
    setFault(refusal);
    onRefused(refusal);
  };
  const look = async (): Promise<void> => {
    if (asked.look === undefined) return;
    const found = await asked.look().catch(asFault);
    if (found instanceof ApiFault) refuse(found);
    else setSeen(found);
  };
  useEffect(() => {
    dialog.current?.showModal();
    void look();
    // Once: what is asked about doesn't change while it's asked.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  const question = questionOf(asked, seen, given);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (question === null || busy) return;
    setBusy(true);
    setFault(null);
    const done = await (asked.look === undefined ? asked.act() : asked.act(seen!, given)).catch(asFault);
    setBusy(false);
    if (!(done instanceof ApiFault)) onClose();
    else {
      refuse(done);
      if (done.kind === "conflict") await look(); // somebody else was faster: ask about what is now
    }
  };
  return (
    <dialog ref={dialog} className="ask" onClose={onClose} aria-labelledby="ask-title">
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="ask-title">{question?.title ?? "One moment…"}</h2>
        {asked.field !== undefined && (
          <label className="field">
            <span>{asked.field.label}</span>
            <input
              type="number"
              inputMode="numeric"
              min={0}
              max={asked.field.most}
              step={1}
              value={number}
              onChange={(event) => setNumber(event.target.value)}
            />
          </label>
        )}
        {question?.says.map((sentence) => <p key={sentence}>{sentence}</p>)}
        {fault !== null && (
          <p className="say bad" role="alert">
            <span className="tone-bad" aria-hidden="true">
              ▲
            </span>
            <span>{fault.message}</span>
          </p>
        )}
        <div className="actions">
          <button type="button" onClick={onClose}>
            Leave it as it is
          </button>
          <button type="submit" className="main" disabled={question === null || busy}>
            {busy ? "One moment…" : (question?.yes ?? "…")}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function questionOf(asked: Asked, seen: NodeSeen | null, number: number | null): Question | null {
  if (asked.look === undefined) return asked.question();
  return seen === null ? null : asked.question(seen, number);
}
