/** The window-filling picture with the bar that fades while nobody moves. */
import { type ReactNode, useEffect, useRef } from "react";
import type { Stage } from "../stage/stage";
import type { Picture } from "../words/states";
import { useIdle } from "./use-idle";

const FADE_AFTER_MS = 3_000;

interface Props {
  readonly stage: Stage;
  readonly picture: Picture;
  /** Words lie over the picture, so it's dimmed and the bar stays. */
  readonly covered: boolean;
  /** Somebody plays here and doesn't only watch: room is left for what fingers need. */
  readonly playing?: boolean;
  readonly top: ReactNode;
  readonly children: ReactNode;
}

export function StageFrame({ stage, picture, covered, playing = false, top, children }: Props) {
  const frame = useRef<HTMLElement>(null);
  const idle = useIdle(FADE_AFTER_MS);
  useEffect(() => {
    const element = frame.current;
    element?.prepend(stage.video, stage.still);
    element?.focus();
    return () => {
      stage.video.remove();
      stage.still.remove();
    };
  }, [stage]);
  return (
    <main
      ref={frame}
      className={`stage${playing ? " playing" : ""}${idle && !covered ? " quiet" : ""}`}
      data-theme="dark"
      data-picture={picture}
      data-covered={covered}
      tabIndex={-1}
      aria-label="Stage"
    >
      {children}
      {/* A click on a button mustn't take the keys away from the world. */}
      <div className="top" onMouseDown={(event) => event.preventDefault()}>
        {top}
      </div>
    </main>
  );
}
