/** A recording of both sides, the caller on the left and the agent on the right. It never leaves the browser. */

const TYPES = [
  ["audio/webm;codecs=opus", "webm"],
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
];

export class Recording {
  #recorder;
  #merger;
  #taps;
  #parts = [];
  #extension;

  static get isAvailable() {
    return "MediaRecorder" in window;
  }

  /** @param {import("./taps.js").Taps} taps */
  constructor(taps) {
    const context = taps.context;
    const [type, extension] = TYPES.find(([each]) => MediaRecorder.isTypeSupported(each)) ?? ["", "webm"];
    this.#taps = taps;
    this.#extension = extension;
    this.#merger = new ChannelMergerNode(context, { numberOfInputs: 2 });
    const outlet = new MediaStreamAudioDestinationNode(context, { channelCount: 2 });
    this.#merger.connect(outlet);
    taps.listen("you", this.#merger, 0);
    taps.listen("agent", this.#merger, 1);
    this.#recorder = new MediaRecorder(outlet.stream, type ? { mimeType: type } : {});
    this.#recorder.addEventListener("dataavailable", ({ data }) => this.#parts.push(data));
    this.#recorder.start(1_000);
  }

  /** @returns {Promise<{blob: Blob, extension: string}>} */
  async stop() {
    if (this.#recorder.state !== "inactive") {
      const stopped = new Promise((resolve) => (this.#recorder.onstop = resolve));
      this.#recorder.stop();
      await stopped;
    }
    this.#taps.forget(this.#merger);
    return { blob: new Blob(this.#parts, { type: this.#recorder.mimeType }), extension: this.#extension };
  }
}
