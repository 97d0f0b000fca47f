/** Is what is shown what is so? If not, since when. */
import { Sign } from "../parts/Sign";
import { spell } from "../words/time";

/** The server sends something every second. */
const OLD_AFTER_MS = 4_000;

interface Props {
  readonly heardAtMs: number;
  readonly connected: boolean;
  readonly now: number;
}

export function Freshness({ heardAtMs, connected, now }: Props) {
  const ageMs = Math.max(0, now - heardAtMs);
  if (connected && ageMs < OLD_AFTER_MS) {
    return (
      <p className="freshness">
        <Sign sign={{ tone: "live", words: "Live" }} />
      </p>
    );
  }
  const what = `Last update ${spell(ageMs / 1_000)} ago`;
  return (
    <p className="freshness old" role="status">
      <Sign sign={{ tone: "attention", words: connected ? what : `${what}. Reconnecting…` }} />
    </p>
  );
}
