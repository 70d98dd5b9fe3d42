/** A short listen to the voice that is chosen, where the server has one. */

import { element } from "./dom.js";
import { fetchSample } from "./server.js";

export class Listen {
  #audio = new Audio();
  /** Counts the listens, so that a sample that comes late is not played over another. */
  #turn = 0;
  #voices = new Set();

  constructor() {
    element("listen").addEventListener("click", () => (this.#isOn ? this.stop() : void this.#begin()));
    element("voice").addEventListener("change", () => this.#changed());
    this.#audio.addEventListener("ended", () => this.stop());
  }

  /** @param {string[] | undefined} voices that there is a sample of */
  offer(voices) {
    this.#voices = new Set(voices);
    this.#changed();
  }

  get #isOn() {
    return element("listen").getAttribute("aria-pressed") === "true";
  }

  #changed() {
    this.stop();
    const voice = element("voice").value;
    element("listen").hidden = !this.#voices.has(voice);
    element("listen").setAttribute("aria-label", `Listen to ${voice}`);
  }

  async #begin() {
    this.#turn += 1;
    const turn = this.#turn;
    this.#show(true);
    try {
      const sample = await fetchSample(element("voice").value);
      if (turn !== this.#turn) return;
      this.#audio.src = URL.createObjectURL(sample);
      await this.#audio.setSinkId?.(element("speaker").value);
      await this.#audio.play();
    } catch (error) {
      if (turn !== this.#turn) return;
      console.info("the sample was not played:", error.code ?? error.message);
      this.stop();
      element("listen-result").textContent = "The sample could not be played.";
    }
  }

  /** Silence: a call begins, or the caller has heard enough. */
  stop() {
    this.#turn += 1;
    this.#audio.pause();
    if (this.#audio.src) URL.revokeObjectURL(this.#audio.src);
    this.#audio.removeAttribute("src");
    this.#show(false);
  }

  #show(on) {
    element("listen").setAttribute("aria-pressed", String(on));
    element("listen").querySelector("span").textContent = on ? "Stop" : "Listen";
    element("listen-result").textContent = "";
  }
}
