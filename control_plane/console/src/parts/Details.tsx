/** The fold with codes and ids, for whoever has to report something. */
import { useState } from "react";
import { copyText } from "./copy";

interface Props {
  readonly facts: readonly (readonly [name: string, value: string])[];
}

export function Details({ facts }: Props) {
  const [copied, setCopied] = useState(false);
  const text = facts.map(([name, value]) => `${name}: ${value}`).join("\n");
  return (
    <details className="small">
      <summary>Details</summary>
      <dl className="details-list">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => void copyText(text).then(setCopied)}>
        {copied ? "Copied" : "Copy"}
      </button>
    </details>
  );
}
