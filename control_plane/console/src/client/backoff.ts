/** How long is it waited before the same thing is tried again? Pure. */

const SLOWEST_MS = 8_000;

/** After the *failures*-th failed try in a row; what the server asks for counts more. */
export function backoffMs(failures: number, retryAfterS: number | null): number {
  const grown = Math.min(SLOWEST_MS, 500 * 2 ** Math.max(0, failures));
  return retryAfterS === null ? grown : Math.min(SLOWEST_MS, Math.max(1_000, retryAfterS * 1_000));
}

/** Wait; rejects as soon as *signal* is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}
