/** What does the player see on stage? The picture; all else steps back. */
import { useEffect } from "react";
import { listenForKeys } from "../controls/listen";
import { CurtainView } from "../parts/CurtainView";
import { HeldKeys, KeysHint } from "../parts/KeysHint";
import { ShareButton } from "../parts/ShareButton";
import { SoundButton } from "../parts/SoundButton";
import { StageFrame } from "../parts/StageFrame";
import { TouchControls } from "../parts/TouchControls";
import { TopSign } from "../parts/TopSign";
import { useNow } from "../parts/use-now";
import type { Player } from "../player/player";
import type { View } from "../player/view";
import { chipsOf } from "../words/chips";
import { curtainOf } from "../words/curtain";
import { signOf } from "../words/states";

interface Props {
  readonly player: Player;
  readonly view: View;
}

export function StagePage({ player, view }: Props) {
  const { record, picture, numbers } = view;
  const run = player.run;
  useEffect(() => (run === null ? undefined : listenForKeys(run.sender)), [run]);
  if (record === null || run === null) return null;
  const since = view.returned?.sinceMs;
  const curtain = curtainOf({
    record,
    picture,
    reachable: view.reachable,
    ending: view.ending,
    returnedS: since === undefined ? null : (performance.now() - since) / 1_000,
    lease: view.lease,
    shy: view.shy,
  });
  const sign = signOf(record, picture, view.lease);
  const top = (
    <>
      <TopSign sign={sign} playedS={numbers.playedS} />
      <span className="fill" />
      <StageNumbers view={view} />
      <span className="buttons">
        <SoundButton sound={view.sound} onClick={() => void run.stage.toggleSound()} />
        <ShareButton makeLink={() => player.viewerLink()} />
        <button type="button" disabled={view.ending} onClick={() => player.end()}>
          Stop
        </button>
      </span>
    </>
  );
  return (
    <StageFrame
      stage={run.stage}
      picture={picture}
      covered={curtain !== null || view.blocked}
      playing
      top={top}
    >
      <CurtainView
        curtain={view.blocked ? null : curtain}
        tone={sign.tone}
        onTap={view.blocked ? () => player.unblock() : null}
      />
      <Chips view={view} covered={curtain !== null} />
      <KeysHint gone={view.hasPressed || picture !== "live"} />
      <HeldKeys held={view.held} />
      <TouchControls sender={run.sender} />
    </StageFrame>
  );
}

function StageNumbers({ view }: { view: View }) {
  const { fps, rttMs, viewers } = view.numbers;
  return (
    <span className="numbers">
      {view.picture === "live" && <span>{fps} fps</span>}
      {rttMs !== null && <span title="From a key to the world's answer">{rttMs} ms</span>}
      {viewers > 0 && <span>{viewers} watching</span>}
    </span>
  );
}

function Chips({ view, covered }: { view: View; covered: boolean }) {
  const now = useNow();
  const until = (atMs: number | null) => (atMs === null ? null : Math.max(0, (atMs - now) / 1_000));
  const { reachable, lease } = view;
  const endsInS = until(view.upAtMs);
  const movesInS = until(view.movesAtMs);
  return (
    <div className="chips">
      {chipsOf({ reachable, covered, lease, endsInS, movesInS }).map((chip) => (
        <span className="chip" key={chip}>
          {chip}
        </span>
      ))}
    </div>
  );
}
