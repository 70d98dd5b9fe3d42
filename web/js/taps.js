/** Both sides' sound, tapped for meters, a recording and measurements. Nothing is played from here. */

/** One AudioContext for one call, made inside the click and closed with the call. */
export class Taps {
  #context = null;
  #sources = new Map();
  #streams = new Map();
  /** @type {{side: "you" | "agent", node: AudioNode, input: number}[]} */
  #listeners = [];
  #worklet = null;

  constructor() {
    try {
      this.#context = new AudioContext({ latencyHint: "interactive" });
      void this.#context.resume();
    } catch (error) {
      // A call without meters is still a call.
      console.warn("the sound cannot be tapped:", error.message);
    }
  }

  /** null where the browser gives none, and after the call. @returns {AudioContext | null} */
  get context() {
    return this.#context;
  }

  /** Output latency of the device as the browser knows it, in ms. */
  get outputMs() {
    return (this.#context?.outputLatency || this.#context?.baseLatency || 0) * 1_000;
  }

  /** @param {"you" | "agent"} side @param {MediaStream} stream replaces what was tapped before */
  tap(side, stream) {
    if (!this.#context) return;
    this.#sources.get(side)?.disconnect();
    this.#sources.delete(side);
    this.#streams.set(side, stream);
    try {
      const source = this.#context.createMediaStreamSource(stream);
      this.#sources.set(side, source);
      for (const { node, input } of this.#listeners.filter((one) => one.side === side)) {
        source.connect(node, 0, input);
      }
    } catch (error) {
      // Firefox taps no device whose sample rate is not the context's.
      console.warn("no tap on", side, error.message);
    }
  }

  /** The side's sound goes into that input, whatever stream carries it. */
  listen(side, node, input = 0) {
    this.#listeners.push({ side, node, input });
    this.#sources.get(side)?.connect(node, 0, input);
  }

  forget(node) {
    for (const { side, input } of this.#listeners.filter((one) => one.node === node)) {
      this.#sources.get(side)?.disconnect(node, 0, input);
    }
    this.#listeners = this.#listeners.filter((one) => one.node !== node);
  }

  /** A node whose port posts what its two inputs hear; see `ears.js`. @returns {Promise<AudioWorkletNode>} */
  async ears(options = {}) {
    this.#worklet ??= this.#context.audioWorklet.addModule(new URL("ears.js", import.meta.url));
    await this.#worklet;
    if (!this.#context) throw new DOMException("the call is over", "AbortError");
    return new AudioWorkletNode(this.#context, "ears", {
      numberOfInputs: 2,
      numberOfOutputs: 0,
      processorOptions: options,
    });
  }

  close() {
    for (const source of this.#sources.values()) source.disconnect();
    this.#sources.clear();
    this.#listeners = [];
    void this.#context?.close();
    this.#context = null;
  }
}
