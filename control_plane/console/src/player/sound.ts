/**
 * How does a person who looks elsewhere hear that it's their turn?
 *
 * Two short notes. Browsers only allow sound after a gesture, so the context is made in the click on
 * "Enter"; after a reload without a click there's simply no sound.
 */

let context: AudioContext | null = null;

/** Call it in a click. */
export function allowSound(): void {
  context ??= new AudioContext();
  void context.resume().catch(() => undefined);
}

export function chime(): void {
  if (context === null || context.state !== "running") return;
  note(context, 659, 0);
  note(context, 880, 0.16);
}

function note(audio: AudioContext, frequency: number, afterS: number): void {
  const begin = audio.currentTime + afterS;
  const tone = audio.createOscillator();
  const volume = audio.createGain();
  tone.frequency.value = frequency;
  volume.gain.setValueAtTime(0, begin);
  volume.gain.linearRampToValueAtTime(0.12, begin + 0.02);
  volume.gain.exponentialRampToValueAtTime(0.001, begin + 0.3);
  tone.connect(volume).connect(audio.destination);
  tone.start(begin);
  tone.stop(begin + 0.32);
}
