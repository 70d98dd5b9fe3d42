/** Holds messages back until the sound that they belong to is heard. */

/** Longer than any buffer on the way fills in ordinary times. */
const LONGEST_MS = 2_000;

export class Captions {
  #show;
  #queue = [];
  #timer = null;
  #lastDue = 0;

  /** The text is shown as it comes, before it is heard. */
  atOnce = false;
  /** ms from a message's arrival to the moment its sound leaves the loudspeaker; null: not known. */
  soundLagMs = null;

  /** @param {(message: object) => void} show */
  constructor(show) {
    this.#show = show;
  }

  /** In order, whatever the lag does meanwhile. */
  add(message) {
    const now = performance.now();
    const lag = this.atOnce ? 0 : Math.min(LONGEST_MS, Math.max(0, this.soundLagMs ?? 0));
    this.#lastDue = Math.max(now + lag, this.#lastDue);
    if (lag === 0 && this.#queue.length === 0) return this.#show(message);
    this.#queue.push({ message, due: this.#lastDue });
    this.#schedule();
  }

  /** Nothing more will be heard: what waits is shown now. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#lastDue = 0;
    for (const { message } of this.#queue.splice(0)) this.#show(message);
  }

  #schedule() {
    if (this.#timer !== null || this.#queue.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const now = performance.now();
      while (this.#queue.length && this.#queue[0].due <= now + 5) this.#show(this.#queue.shift().message);
      this.#schedule();
    }, Math.max(0, this.#queue[0].due - performance.now()));
  }
}
