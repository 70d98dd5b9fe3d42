/** What the caller may keep of a call: the script and a recording. All of it is made in the browser. */

import { element } from "./dom.js";
import { Recording } from "./recording.js";

const RELEASE_MS = 60_000;

/** @param {Blob} blob @param {string} name of the file */
function download(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  // Not at once: a browser may begin to read only after it has asked where to put the file.
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS);
}

/** @param {Date} at @returns {string} "2026-03-01-14-05" in the caller's own time */
function stamp(at) {
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16).replaceAll(/[T:]/g, "-");
}

/** The buttons beside the conversation. */
export class Keep {
  #transcript;
  #taps = null;
  #recording = null;
  #began = new Date();

  /** @param {import("./transcript.js").Transcript} transcript */
  constructor(transcript) {
    this.#transcript = transcript;
    element("save-text").addEventListener("click", () => this.#save("txt", "text/plain", transcript.asText()));
    element("save-json").addEventListener("click", () =>
      this.#save("json", "application/json", JSON.stringify(transcript.asJson(), null, 2)),
    );
    element("record").addEventListener("click", () => void this.toggleRecording());
  }

  #save(extension, type, text) {
    download(new Blob([`${text}\n`], { type }), `call-${stamp(this.#began)}.${extension}`);
  }

  /** @param {import("./taps.js").Taps} taps of a call that went live */
  begin(taps) {
    this.#began = new Date();
    this.#transcript.beganAt = this.#began;
    this.#taps = taps;
    element("record").hidden = !Recording.isAvailable || !taps.context;
    this.#show();
  }

  async toggleRecording() {
    if (this.#recording) return this.#finish();
    this.#recording = new Recording(this.#taps);
    this.#show();
  }

  async #finish() {
    const recording = this.#recording;
    this.#recording = null;
    this.#show();
    const { blob, extension } = await recording.stop();
    download(blob, `call-${stamp(this.#began)}.${extension}`);
  }

  /** The call is over. A recording in the making is kept. */
  end() {
    element("record").hidden = true;
    if (this.#recording) void this.#finish();
  }

  #show() {
    const active = this.#recording !== null;
    element("record").setAttribute("aria-pressed", String(active));
    element("record").querySelector("span").textContent = active ? "Stop" : "Record";
  }
}
