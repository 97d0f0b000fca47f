/** Let the world be heard, or silence it; there's no button where there's no sound. */
import type { Sound } from "../stage/stage";

export function SoundButton({ sound, onClick }: { sound: Sound; onClick(): void }) {
  if (sound === "none") return null;
  return (
    <button type="button" onClick={onClick}>
      {sound === "on" ? "Sound off" : "Sound on"}
    </button>
  );
}
