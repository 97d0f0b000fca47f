/** What is served here and how busy is it? Asked every few seconds while a card is shown. */
import { useEffect, useState } from "react";
import { greenroom } from "../api/greenroom";
import type { Health, Metadata } from "../client/types";

const EVERY_MS = 3_000;

export interface Served {
  readonly health: Health | null;
  readonly metadata: Metadata | null;
  /** False after a call that nobody answered. */
  readonly reachable: boolean;
}

export function useHealth(): Served {
  const [served, setServed] = useState<Served>({ health: null, metadata: null, reachable: true });
  useEffect(() => {
    let over = false;
    let timer: ReturnType<typeof setTimeout>;
    const ask = async (): Promise<void> => {
      const [health, metadata] = await Promise.allSettled([greenroom.health(), greenroom.metadata()]);
      if (over) return;
      setServed((before) => ({
        health: health.status === "fulfilled" ? health.value : before.health,
        metadata: metadata.status === "fulfilled" ? metadata.value : before.metadata,
        reachable: health.status === "fulfilled",
      }));
      timer = setTimeout(() => void ask(), EVERY_MS);
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return served;
}
