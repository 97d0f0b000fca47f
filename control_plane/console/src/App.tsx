/** Which page is shown? Also: the title and what screen readers hear. */
import { useEffect, useSyncExternalStore } from "react";
import { ElsewherePage } from "./pages/ElsewherePage";
import { EndPage } from "./pages/EndPage";
import { StagePage } from "./pages/StagePage";
import { StartPage } from "./pages/StartPage";
import { WaitingPage } from "./pages/WaitingPage";
import { LiveRegion } from "./parts/LiveRegion";
import type { Player } from "./player/player";
import type { View } from "./player/view";
import { headlineOf } from "./words/headline";

export function App({ player }: { player: Player }) {
  const view = useSyncExternalStore(player.subscribe, player.getView);
  const headline = headlineOf(view);
  useEffect(() => {
    document.title = headline === null ? "Greenroom" : `${headline} · Greenroom`;
  }, [headline]);
  return (
    <>
      <Page player={player} view={view} />
      <LiveRegion words={headline ?? ""} />
    </>
  );
}

function Page({ player, view }: { player: Player; view: View }) {
  switch (view.phase) {
    case "start":
    case "entering":
      return (
        <StartPage
          entry={view.entry}
          notice={view.notice}
          refusal={view.refusal}
          keyTrouble={view.keyTrouble}
          entering={view.phase === "entering"}
          reachable={view.reachable}
          onEnter={(entry) => player.enter(entry)}
          onCancel={() => player.cancelEntering()}
          onKey={(key) => player.useKey(key)}
        />
      );
    case "resuming":
    case "waiting":
      return (
        <WaitingPage view={view} onLeave={() => player.end()} onPlayHere={() => player.playHere()} />
      );
    case "stage":
      if (view.elsewhere) return <ElsewherePage onPlayHere={() => player.playHere()} />;
      return <StagePage player={player} view={view} />;
    case "ended":
      if (view.final === null) return null;
      return (
        <EndPage
          final={view.final}
          onAgain={() => player.playAgain()}
          onStart={() => player.backToStart()}
        />
      );
  }
}
