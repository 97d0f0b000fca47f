/** Ask for the key of a server that wants one, and say what was wrong with the last. */
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { keySentence, type KeyTrouble } from "../words/keys";

interface Props {
  readonly title: string;
  readonly trouble: KeyTrouble;
  /** One sentence on which key it is. */
  readonly hint: string;
  readonly busy?: boolean;
  readonly children?: ReactNode;
  onKey(key: string): void;
}

export function KeyCard({ title, trouble, hint, busy = false, children, onKey }: Props) {
  const [key, setKey] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [trouble]);
  const wrong = keySentence(trouble);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (key.trim() !== "") onKey(key);
  };
  return (
    <form className="card" onSubmit={submit} aria-busy={busy}>
      <div className="field">
        <h1>
          <label htmlFor="key">{title}</label>
        </h1>
        <p className="muted" id="key-hint">
          {hint}
        </p>
        <input
          id="key"
          ref={field}
          type="password"
          autoComplete="off"
          spellCheck={false}
          aria-describedby="key-hint"
          aria-invalid={wrong !== null}
          placeholder="grk_…"
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
      </div>
      {wrong !== null && (
        <p className="say bad" role="alert">
          <span className="tone-bad" aria-hidden="true">
            ▲
          </span>
          <span>{wrong}</span>
        </p>
      )}
      <div className="actions">
        <button type="submit" className="main" disabled={busy || key.trim() === ""}>
          {busy ? "Trying…" : "Use this key"}
        </button>
        {children}
      </div>
    </form>
  );
}
