/** A state as shape and word; colour only underlines it. */
import { type Sign as SignValue, SHAPES } from "../words/states";

export function Sign({ sign }: { sign: SignValue }) {
  return (
    <span className="sign">
      <span className={`tone-${sign.tone}`} aria-hidden="true">
        {SHAPES[sign.tone]}
      </span>
      <span>{sign.words}</span>
    </span>
  );
}
