/** Where do key presses come from? The whole window, as long as nobody types into a field. */

import { controlOf, isShortcut } from "./keys";
import type { ControlSender } from "./control-sender";

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** Returns the function that ends the listening and lets go of everything. */
export function listenForKeys(sender: ControlSender): () => void {
  const down = (event: KeyboardEvent): void => {
    const control = controlOf(event);
    if (control === null || isShortcut(event) || isTyping(event.target)) return;
    event.preventDefault();
    sender.press(control);
  };
  const up = (event: KeyboardEvent): void => {
    const control = controlOf(event);
    if (control !== null) sender.release(control);
    // macOS sends no key-up for letters that were down while Command was.
    if (event.key === "Meta") sender.releaseAll();
  };
  const away = (): void => sender.releaseAll();
  const hidden = (): void => {
    if (document.hidden) sender.releaseAll();
  };
  window.addEventListener("keydown", down);
  window.addEventListener("keyup", up);
  window.addEventListener("blur", away);
  document.addEventListener("visibilitychange", hidden);
  return () => {
    window.removeEventListener("keydown", down);
    window.removeEventListener("keyup", up);
    window.removeEventListener("blur", away);
    document.removeEventListener("visibilitychange", hidden);
    sender.releaseAll();
  };
}
