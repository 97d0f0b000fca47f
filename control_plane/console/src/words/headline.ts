/** What is going on, in the few words of a tab's title? Null on the start card. Pure. */

import type { View } from "../player/view";
import { signOf, statusWords } from "./states";

export function headlineOf(view: View): string | null {
  switch (view.phase) {
    case "start":
    case "entering":
      return null;
    case "resuming":
    case "waiting":
      return view.record === null ? "Finding your place…" : statusWords(view.record);
    case "stage":
      return view.record === null ? null : signOf(view.record, view.picture, view.lease).words;
    case "ended":
      return view.final?.ending.title ?? null;
  }
}
