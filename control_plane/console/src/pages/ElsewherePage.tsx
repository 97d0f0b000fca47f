/** What does a second tab show while the first one plays? */
import { Heading } from "../parts/Heading";
import { Room } from "../parts/Room";

export function ElsewherePage({ onPlayHere }: { onPlayHere(): void }) {
  return (
    <Room lamp="live">
      <section className="card">
        <Heading>You're on in another tab</Heading>
        <p className="muted">
          This browser plays one world at a time. Close the other tab, or go on here: the world stays
          as it is.
        </p>
        <div className="actions">
          <button type="button" className="main" onClick={onPlayHere}>
            Play here instead
          </button>
        </div>
      </section>
    </Room>
  );
}
