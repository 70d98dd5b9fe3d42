/** How loud each side is. */

export const FLOOR_DB = -60;

/** Reads the levels of a call's taps. */
export class Levels {
  #analysers = new Map();
  #samples = new Float32Array(1024);

  /** @param {import("./taps.js").Taps} taps */
  constructor(taps) {
    if (!taps.context) return;
    for (const side of ["you", "agent"]) {
      const analyser = new AnalyserNode(taps.context, { fftSize: this.#samples.length });
      taps.listen(side, analyser);
      this.#analysers.set(side, analyser);
    }
  }

  /** @param {"you" | "agent"} side @returns {number} RMS of the last 21 ms at 48 kHz, in dBFS */
  read(side) {
    const analyser = this.#analysers.get(side);
    if (!analyser) return FLOOR_DB;
    analyser.getFloatTimeDomainData(this.#samples);
    let sum = 0;
    for (const sample of this.#samples) sum += sample * sample;
    const rms = Math.sqrt(sum / this.#samples.length);
    return Math.max(FLOOR_DB, 20 * Math.log10(rms || 1e-6));
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
