/** How are this tab and its requests named? Random, so nobody is told apart by name. */

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

function random(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return Array.from(bytes, (byte) => ALPHABET[byte % 32]).join("");
}

export const newIdentity = (): string => `player-${random(16)}`;
export const newViewerIdentity = (): string => `viewer-${random(16)}`;
export const newIdempotencyKey = (): string => random(26);
