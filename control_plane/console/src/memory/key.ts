/**
 * Which key opens the server? One that somebody typed in here; it is forgotten with this tab.
 *
 * Never in an address, never in a storage that lasts.
 */

const KEY = "greenroom.key";

export function loadKey(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function saveKey(key: string): void {
  try {
    sessionStorage.setItem(KEY, key.trim());
  } catch {
    // Without a storage there is no key: it will be asked for again.
  }
}

export function forgetKey(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was kept.
  }
}
