/**
 * Which key is which control, and which are held? Pure.
 *
 * Letters are taken by their place on the keyboard, so that w a s d stay together on any layout.
 */

const BY_CODE: Readonly<Record<string, string>> = {
  KeyW: "w",
  KeyA: "a",
  KeyS: "s",
  KeyD: "d",
  KeyI: "i",
  KeyJ: "j",
  KeyK: "k",
  KeyL: "l",
  ArrowUp: "ArrowUp",
  ArrowDown: "ArrowDown",
  ArrowLeft: "ArrowLeft",
  ArrowRight: "ArrowRight",
};
const BY_KEY: readonly string[] = Object.values(BY_CODE);

export interface KeyPress {
  readonly code: string;
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/** The control of a key event, or null; key events without a code (on-screen keyboards) go by key. */
export function controlOf(press: KeyPress): string | null {
  const byCode = BY_CODE[press.code];
  if (byCode !== undefined) return byCode;
  if (press.code !== "") return null;
  const key = press.key.length === 1 ? press.key.toLowerCase() : press.key;
  return BY_KEY.includes(key) ? key : null;
}

/** Shortcuts of the browser are left alone. */
export function isShortcut(press: KeyPress): boolean {
  return press.ctrlKey || press.metaKey || press.altKey;
}

const CAPS: Readonly<Record<string, string>> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
};

/** What is printed on the key. */
export function capOf(control: string): string {
  return CAPS[control] ?? control.toUpperCase();
}

/** The controls held down now, in the order of pressing. */
export class HeldKeys {
  private readonly held = new Set<string>();

  /** Returns whether anything changed (a held key repeats itself). */
  press(control: string): boolean {
    if (this.held.has(control)) return false;
    this.held.add(control);
    return true;
  }

  release(control: string): boolean {
    return this.held.delete(control);
  }

  clear(): boolean {
    const had = this.held.size > 0;
    this.held.clear();
    return had;
  }

  get controls(): readonly string[] {
    return [...this.held];
  }
}
