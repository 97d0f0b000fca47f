/** The words over a picture that isn't live, or the tap that the browser asks for. */
import type { Curtain } from "../words/curtain";
import { SHAPES, type Tone } from "../words/states";

interface Props {
  readonly curtain: Curtain | null;
  readonly tone: Tone;
  /** The browser won't play without a gesture. */
  readonly onTap: (() => void) | null;
}

export function CurtainView({ curtain, tone, onTap }: Props) {
  if (onTap !== null) {
    return (
      <div className="curtain">
        <button type="button" className="main" onClick={onTap} autoFocus>
          Tap to start
        </button>
      </div>
    );
  }
  if (curtain === null) return null;
  return (
    <div className="curtain">
      <span className={`shape tone-${tone}`} aria-hidden="true">
        {SHAPES[tone]}
      </span>
      <p>{curtain.words}</p>
      {curtain.more !== null && <p className="muted">{curtain.more}</p>}
    </div>
  );
}
