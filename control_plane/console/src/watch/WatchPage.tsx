/** What does somebody see who follows a viewer's link? The picture and nothing to press. */
import { useEffect, useSyncExternalStore } from "react";
import { CurtainView } from "../parts/CurtainView";
import { LiveRegion } from "../parts/LiveRegion";
import { Sign } from "../parts/Sign";
import { SoundButton } from "../parts/SoundButton";
import { StageFrame } from "../parts/StageFrame";
import { watchCurtain, watchSign } from "../words/watching";
import type { Watcher } from "./watcher";

export function WatchPage({ watcher }: { watcher: Watcher }) {
  const view = useSyncExternalStore(watcher.subscribe, watcher.getView);
  const curtain = watchCurtain(view);
  const sign = watchSign(view);
  useEffect(() => {
    document.title = `${curtain?.words ?? "Watching"} · Greenroom`;
  }, [curtain?.words]);
  const top = (
    <>
      <Sign sign={sign} />
      <span className="fill" />
      <span className="numbers">
        {view.picture === "live" && <span>{view.fps} fps</span>}
        {view.viewers > 0 && <span>{view.viewers + 1} watching</span>}
      </span>
      <span className="buttons">
        <SoundButton sound={view.sound} onClick={() => void watcher.stage.toggleSound()} />
        {view.trouble === "open_elsewhere" && (
          <button type="button" onClick={() => watcher.watchHere()}>
            Watch here
          </button>
        )}
      </span>
    </>
  );
  return (
    <StageFrame
      stage={watcher.stage}
      picture={view.picture}
      covered={curtain !== null}
      top={top}
    >
      <CurtainView
        curtain={curtain}
        tone={sign.tone}
        onTap={view.blocked ? () => void watcher.stage.unblock() : null}
      />
      <LiveRegion words={curtain?.words ?? "Watching"} />
    </StageFrame>
  );
}
