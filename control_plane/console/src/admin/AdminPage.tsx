/** What does an operator see? A cue sheet: pools at the left, numbers on top, then three tables. */
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import type { ApiFault } from "../client/fault";
import { KeyCard } from "../parts/KeyCard";
import { Room } from "../parts/Room";
import { useNow } from "../parts/use-now";
import { keyTroubleOf } from "../words/keys";
import { Ask, type Asked } from "./Ask";
import { Freshness } from "./Freshness";
import type { AdminFeed, FeedView } from "./feed";
import { LineTable } from "./LineTable";
import { NodeTable } from "./NodeTable";
import { Pools } from "./Pools";
import { SessionTable } from "./SessionTable";
import { Strip } from "./Strip";
import type { Overview } from "./types";

export function AdminPage({ feed }: { feed: AdminFeed }) {
  const view = useSyncExternalStore(feed.subscribe, feed.getView);
  useEffect(() => {
    document.title = "Backstage · Greenroom";
  }, []);
  if (view.keyTrouble !== null) {
    return (
      <Room lamp="waiting">
        <KeyCard
          title="Backstage asks for a key"
          hint="An API key that may do what an admin does. It is kept in this tab only."
          trouble={view.keyTrouble}
          onKey={(key) => feed.useKey(key)}
        />
      </Room>
    );
  }
  if (view.overview === null) return <Connecting view={view} />;
  return <Backstage feed={feed} view={view} overview={view.overview} />;
}

function Connecting({ view }: { view: FeedView }) {
  const now = useNow();
  const isSlow = now - view.heardAtMs > 3_000;
  return (
    <Room lamp={isSlow ? "attention" : "starting"}>
      <section className="card" role="status">
        <h1>{isSlow ? "Can't reach the registry" : "Looking backstage…"}</h1>
        {isSlow && <p className="muted">It is tried again by itself. Sessions go on meanwhile.</p>}
      </section>
    </Room>
  );
}

interface Props {
  readonly feed: AdminFeed;
  readonly view: FeedView;
  readonly overview: Overview;
}

function Backstage({ feed, view, overview }: Props) {
  const [chosen, setChosen] = useState<string | null>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  const now = useNow();
  /** The server's time: what it said last, and what has passed here since. */
  const at = overview.at + Math.max(0, now - view.heardAtMs) / 1_000;
  const pool = overview.pools.find((one) => one.pool === chosen) ?? overview.pools[0];
  const onRefused = useCallback(
    (fault: ApiFault) => {
      const trouble = keyTroubleOf(fault);
      if (trouble !== null) feed.refusedFor(trouble);
    },
    [feed],
  );
  if (pool === undefined) return null;
  return (
    <main className="admin">
      <Pools pools={overview.pools} chosen={pool.pool} onChoose={setChosen} />
      <div className="sheet">
        <header className="sheet-head">
          <h1>
            <span className="muted">Pool</span> {pool.pool}
          </h1>
          <Freshness heardAtMs={view.heardAtMs} connected={view.connected} now={now} />
        </header>
        <Strip pool={pool} at={at} />
        <div className="tables">
          <LineTable
            pool={pool}
            at={at}
            identities={view.identities}
            onIdentities={(shown) => feed.showIdentities(shown)}
            onAsk={setAsked}
          />
          <div className="stack">
            <NodeTable pool={pool} at={at} onAsk={setAsked} />
            <SessionTable pool={pool} at={at} identities={view.identities} onAsk={setAsked} />
          </div>
        </div>
      </div>
      {asked !== null && (
        <Ask asked={asked} onClose={() => setAsked(null)} onRefused={onRefused} />
      )}
    </main>
  );
}
