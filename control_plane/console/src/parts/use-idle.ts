/** Has nobody moved the pointer or used Tab for a while? Game keys don't count. */
import { useEffect, useState } from "react";

export function useIdle(afterMs: number): boolean {
  const [idle, setIdle] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const wake = (): void => {
      clearTimeout(timer);
      setIdle(false);
      timer = setTimeout(() => setIdle(true), afterMs);
    };
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Tab" || event.key === "Escape") wake();
    };
    window.addEventListener("pointermove", wake);
    window.addEventListener("pointerdown", wake);
    window.addEventListener("keydown", onKey);
    wake();
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pointermove", wake);
      window.removeEventListener("pointerdown", wake);
      window.removeEventListener("keydown", onKey);
    };
  }, [afterMs]);
  return idle;
}
