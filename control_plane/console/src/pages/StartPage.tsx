/** What does somebody see first? One card: a prompt, a picture, and the way in. */
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { Entry } from "../player/view";
import { KeyCard } from "../parts/KeyCard";
import { Room } from "../parts/Room";
import { type Served, useHealth } from "../parts/use-health";
import { useNow } from "../parts/use-now";
import type { KeyTrouble } from "../words/keys";
import type { Refusal } from "../words/refusals";
import { servedLine } from "../words/served";
import { UNREACHABLE } from "../words/states";
import { ImageField } from "./ImageField";

const MAX_PROMPT_CHARS = 4_000;
const MAX_FPS = 60;

interface Props {
  readonly entry: Entry;
  readonly notice: string | null;
  readonly keyTrouble: KeyTrouble | null;
  readonly refusal: Refusal | null;
  /** Asked and not answered yet. */
  readonly entering: boolean;
  readonly reachable: boolean;
  onEnter(entry: Entry): void;
  onCancel(): void;
  onKey(key: string): void;
}

export function StartPage(props: Props) {
  const { entering } = props;
  const served = useHealth();
  const [prompt, setPrompt] = useState(props.entry.prompt);
  const [image, setImage] = useState(props.entry.image);
  const [fps, setFps] = useState(props.entry.fps?.toString() ?? "");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);

  const submit = (event?: FormEvent): void => {
    event?.preventDefault();
    if (!entering) props.onEnter({ prompt, image, fps: fps === "" ? null : Number(fps) });
  };
  const submitOnEnter = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };

  if (props.keyTrouble !== null && !entering) {
    return (
      <Room lamp="waiting">
        <KeyCard
          title="This stage asks for a key"
          hint="It is kept in this tab only, until you close it."
          trouble={props.keyTrouble}
          onKey={props.onKey}
        >
          <button type="button" onClick={props.onCancel}>
            Back
          </button>
        </KeyCard>
      </Room>
    );
  }
  return (
    <Room lamp={entering ? "starting" : "live"} under={<p>{servedLine(served)}</p>}>
      <form className="card" onSubmit={submit} aria-busy={entering}>
        <div className="field">
          <h1>
            <label htmlFor="prompt">Where do you want to go?</label>
          </h1>
          <textarea
            id="prompt"
            ref={field}
            className="prompt"
            maxLength={MAX_PROMPT_CHARS}
            placeholder="A quiet harbour at dusk, red brick, light fog"
            value={prompt}
            onChange={(event) => setPrompt(event.target.value)}
            onKeyDown={submitOnEnter}
          />
        </div>
        <ImageField image={image} onImage={setImage} />
        <More fps={fps} onFps={setFps} served={served} />
        <Message refusal={props.refusal} notice={props.notice} />
        {entering && !props.reachable && (
          <p className="say tone-attention" role="status">
            {UNREACHABLE}
          </p>
        )}
        <div className="actions">
          <button type="submit" className="main" disabled={entering}>
            {entering ? "Entering…" : "Enter"}
          </button>
          {entering && (
            <button type="button" onClick={props.onCancel}>
              Cancel
            </button>
          )}
        </div>
      </form>
    </Room>
  );
}

interface MoreProps {
  readonly fps: string;
  readonly served: Served;
  onFps(fps: string): void;
}

function More({ fps, served, onFps }: MoreProps) {
  return (
    <details open={fps !== ""}>
      <summary>More</summary>
      <div className="numbers-field">
        <label htmlFor="fps">Frames a second</label>
        <input
          id="fps"
          type="number"
          inputMode="numeric"
          min={1}
          max={MAX_FPS}
          step={1}
          placeholder={served.metadata?.default_fps?.toString() ?? "auto"}
          value={fps}
          onChange={(event) => onFps(event.target.value)}
        />
      </div>
    </details>
  );
}

function Message({ refusal, notice }: { refusal: Refusal | null; notice: string | null }) {
  if (refusal !== null) return <Refused key={refusal.words} refusal={refusal} />;
  if (notice !== null) {
    return (
      <p className="small muted" role="status">
        {notice}
      </p>
    );
  }
  return null;
}

function Refused({ refusal }: { refusal: Refusal }) {
  const now = useNow();
  const [since] = useState(now);
  const leftS = Math.ceil((refusal.retryAfterS ?? 0) - (now - since) / 1_000);
  const again = leftS > 0 ? `Try again in ${leftS} s.` : "Try again now.";
  return (
    <p className="say bad" role="alert">
      <span className="tone-bad" aria-hidden="true">
        ▲
      </span>
      <span>
        {refusal.words} {refusal.retryAfterS !== null && again}
      </span>
    </p>
  );
}
