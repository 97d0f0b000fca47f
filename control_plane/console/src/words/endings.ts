/** What is said when a session has ended: what happened, then what to do. No codes here. */

export interface Ending {
  readonly title: string;
  readonly advice: string;
}

const AGAIN = "Enter again whenever you like.";

const ENDINGS: Readonly<Record<string, Ending>> = {
  client_stop: { title: "You ended it", advice: AGAIN },
  completed: { title: "The show is over", advice: AGAIN },
  admin: { title: "Ended by the operator", advice: "Try again later, or ask who runs this stage." },
  node_shutdown: {
    title: "The machine was taken down",
    advice: "Another one may be free: play again to get in line.",
  },
  session_timeout: { title: "Your time is up", advice: "Play again to get back in line." },
  controller_timeout: {
    title: "You were away too long",
    advice: "Your stage went to the next person. Play again to get back in line.",
  },
  room_empty: { title: "Everyone had left", advice: "Play again to get back in line." },
  queue_abandoned: { title: "You left the line", advice: AGAIN },
  pause_timeout: { title: "The pause was too long", advice: AGAIN },
  talk_timeout: { title: "The talk reached its time limit", advice: AGAIN },
  context_full: { title: "The talk has become too long to go on", advice: AGAIN },
  join_timeout: {
    title: "The stage couldn't be set up",
    advice: "Play again; if it happens twice, tell who runs this stage.",
  },
  start_timeout: {
    title: "The world couldn't start",
    advice: "Play again; if it happens twice, try another prompt or picture.",
  },
  service_error: {
    title: "The world broke",
    advice: "Play again; if it happens twice, try another prompt or picture.",
  },
  recovery_limit: {
    title: "This session kept crashing machines",
    advice: "Try another prompt or picture.",
  },
  livekit_error: { title: "The video connection broke", advice: "Play again in a moment." },
  invalid_config: {
    title: "The world can't be started with these settings",
    advice: "Change them and try again.",
  },
  lost: {
    title: "Your place was lost",
    advice: "The stage no longer knows this session. Play again to get in line.",
  },
};

const UNKNOWN: Ending = { title: "It has ended", advice: AGAIN };

/** Reasons whose title is followed by the service's own sentence. */
const WITH_MESSAGE: readonly string[] = ["service_error", "start_timeout", "invalid_config"];

/** Cut the service's message to something that fits a card; the whole text is in the details. */
function shortened(message: string): string {
  const line = message.trim().split("\n", 1)[0] ?? "";
  return line.length <= 160 ? line : `${line.slice(0, 159)}…`;
}

/** *reason* is one of the API's closed set, or "lost" for a session that nobody knows any more. */
export function endingOf(reason: string | null, error: string | null, played: boolean): Ending {
  const ending = ENDINGS[reason ?? ""] ?? UNKNOWN;
  // A service that fails before the first frame never started, whatever the reason is called.
  const broke = reason === "service_error" && !played;
  const title = broke ? "The world couldn't start" : ending.title;
  if (error === null || !WITH_MESSAGE.includes(reason ?? "")) return { ...ending, title };
  const message = shortened(error);
  return message ? { ...ending, title: `${title}: ${message}` } : { ...ending, title };
}
