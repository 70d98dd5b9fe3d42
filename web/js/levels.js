/** How loud each side is. Analysers only tap the sound; none of it is played from here. */

export const FLOOR_DB = -60;

/** One AudioContext for one call, made inside the click and closed with the call. */
export class Levels {
  #context = null;
  #taps = new Map();
  #samples = new Float32Array(1024);

  constructor() {
    try {
      this.#context = new AudioContext({ latencyHint: "interactive" });
      void this.#context.resume();
    } catch (error) {
      // A call without meters is still a call.
      console.warn("no level meters:", error.message);
    }
  }

  /** @param {"you" | "agent"} side @param {MediaStream} stream replaces what was tapped before */
  tap(side, stream) {
    if (!this.#context) return;
    this.#taps.get(side)?.source.disconnect();
    this.#taps.delete(side);
    try {
      const source = this.#context.createMediaStreamSource(stream);
      const analyser = new AnalyserNode(this.#context, { fftSize: this.#samples.length });
      source.connect(analyser);
      this.#taps.set(side, { source, analyser });
    } catch (error) {
      // Firefox taps no device whose sample rate is not the context's.
      console.warn("no level meter for", side, error.message);
    }
  }

  /** @param {"you" | "agent"} side @returns {number} RMS of the last 21 ms at 48 kHz, in dBFS */
  read(side) {
    const tap = this.#taps.get(side);
    if (!tap) return FLOOR_DB;
    tap.analyser.getFloatTimeDomainData(this.#samples);
    let sum = 0;
    for (const sample of this.#samples) sum += sample * sample;
    const rms = Math.sqrt(sum / this.#samples.length);
    return Math.max(FLOOR_DB, 20 * Math.log10(rms || 1e-6));
  }

  close() {
    for (const { source } of this.#taps.values()) source.disconnect();
    this.#taps.clear();
    void this.#context?.close();
    this.#context = null;
  }
}

/**
 * How tall to draw a level; bent, so that speech shows its syllables.
 * @param {number} db dBFS @returns {number} 0 for quiet, 1 for as loud as speech gets
 */
export const loudness = (db) => Math.min(1, Math.max(0, (db + 54) / 46)) ** 1.5;

/** @param {number} db dBFS @returns {string} for a screen reader */
export function loudnessInWords(db) {
  if (db < -50) return "silent";
  if (db < -34) return "quiet";
  return db < -8 ? "good" : "too loud";
}
