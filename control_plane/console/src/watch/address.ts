/** What does a viewer's address say? `/watch/<session>#<token>`; servers never see what follows the #. */

export interface WatchAddress {
  readonly sessionId: string;
  readonly token: string;
}

/** Null for the address of another page. */
export function parseWatchAddress(path: string, hash: string): WatchAddress | null {
  const match = /^\/watch\/([a-z0-9-]{1,80})\/?$/.exec(path);
  return match?.[1] === undefined ? null : { sessionId: match[1], token: hash.slice(1) };
}
