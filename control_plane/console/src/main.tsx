/** Which page is this address, and how is it started? The operator's has a file of its own. */
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { exposeForTests } from "./debug";
import { parseTicket, takeTicket } from "./memory/ticket";
import { Player } from "./player/player";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/card.css";
import "./styles/stage.css";
import "./styles/touch.css";
import { parseWatchAddress, type WatchAddress } from "./watch/address";
import { Watcher } from "./watch/watcher";
import { WatchPage } from "./watch/WatchPage";

const container = document.getElementById("root");
if (container === null) throw new Error("index.html has no #root");
const address = parseWatchAddress(location.pathname, location.hash);
if (address === null) play(container);
else watch(container, address);

function watch(container: HTMLElement, address: WatchAddress): void {
  const watcher = new Watcher(address);
  createRoot(container).render(<WatchPage watcher={watcher} />);
  watcher.start();
  exposeForTests(() => ({
    state: watcher.getView().record?.status ?? null,
    picture: watcher.getView().picture,
    worker: watcher.stage.workerIdentity,
    frames: watcher.stage.pulse.frames,
    heardS: watcher.stage.heardS,
    rttMs: null,
    sessionId: address.sessionId,
  }));
}

function play(container: HTMLElement): void {
  const player = new Player();
  player.boot(takeTicket());
  // A link with a ticket that is opened in this very tab.
  window.addEventListener("hashchange", () => {
    if (parseTicket(location.hash) !== null) location.reload();
  });
  createRoot(container).render(<App player={player} />);
  exposeForTests(() => ({
    state: player.getView().record?.status ?? null,
    picture: player.getView().picture,
    worker: player.run?.stage.workerIdentity ?? null,
    frames: player.run?.stage.pulse.frames ?? 0,
    heardS: player.run?.stage.heardS ?? 0,
    rttMs: player.getView().numbers.rttMs,
    sessionId: player.run?.sessionId ?? null,
  }));
}
