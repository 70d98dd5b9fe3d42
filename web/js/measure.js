/** Measures one call as long as it lives, and shows what comes of it. */

import { Advice } from "./advice.js";
import { showMixed } from "./devices.js";
import { element } from "./dom.js";
import { EchoWatch } from "./echo.js";
import { measureLatency } from "./latency_test.js";
import { describePath } from "./path.js";
import { Quality } from "./quality.js";
import { showAdvice } from "./quality_panel.js";
import { showFacts } from "./view.js";

const EVERY_MS = 1_000;
const TEST_WORDS = "Measuring: you will hear three short chirps…";

export class Measure {
  #call;
  #taps;
  #panel;
  #quality = new Quality();
  #advice = new Advice();
  #echo = new EchoWatch();
  #timer = null;
  #figures = null;
  #onLag;
  #hasOthers;

  /**
   * @param {import("./call.js").Call} call @param {import("./taps.js").Taps} taps
   * @param {import("./quality_panel.js").QualityPanel} panel
   * @param {(ms: number | null) => void} onLag told how far sound is behind text
   * @param {() => boolean} hasOthers whether the server is known to have other calls
   */
  constructor(call, taps, panel, onLag, hasOthers) {
    this.#call = call;
    this.#taps = taps;
    this.#panel = panel;
    this.#onLag = onLag;
    this.#hasOthers = hasOthers;
    panel.clear();
    showAdvice([]);
  }

  begin() {
    this.#timer = setInterval(() => void this.#read(), EVERY_MS);
    void this.#read();
    void this.#echo.start(this.#taps);
    void this.lookAtDevices();
  }

  end() {
    clearInterval(this.#timer);
    showAdvice([]);
    void showMixed({});
  }

  lookAtDevices() {
    return showMixed(this.#call.microphone);
  }

  fromServer(stats) {
    this.#quality.fromServer(stats);
  }

  rtt(ms) {
    this.#quality.rttMs = ms;
    showFacts({ rtt: `${Math.round(ms)} ms` });
  }

  async #read() {
    const report = await this.#call.stats();
    if (!report || this.#call.state !== "live") return;
    const path = describePath(report);
    if (path) showFacts({ path });
    const outputMs = this.#taps.outputMs;
    this.#figures = this.#quality.fromBrowser(report, outputMs);
    this.#onLag(this.#quality.soundLagMs(outputMs));
    const found = this.#advice.take({ ...this.#figures, hasOthers: this.#hasOthers() });
    const advice = [...this.#echo.advice(), ...found];
    this.#panel.show(this.#figures, advice.length === 0);
    showAdvice(advice);
  }

  /** @param {boolean} returnsSound the agent says back what it hears, so that a chirp comes back */
  async testLatency(returnsSound) {
    const say = (words) => (element("latency-result").textContent = words);
    if (!returnsSound || !this.#taps.context?.audioWorklet) return say(this.#estimateInWords());
    if (this.#call.muted) return say("You are muted, and so would be the chirps. Unmute first.");
    element("latency-test").disabled = true;
    say(TEST_WORDS);
    try {
      const times = await measureLatency(this.#call, this.#taps);
      say(this.#measuredInWords(times));
    } catch (error) {
      if (this.#call.isOver) return say("");
      console.warn("the latency was not measured:", error);
      say("The chirps could not be sent. Try again.");
    } finally {
      element("latency-test").disabled = this.#call.state !== "live";
    }
  }

  #measuredInWords(times) {
    if (times.length === 0) return "No chirp came back. Is the agent an echo, and is the way clear?";
    const middle = times.toSorted((a, b) => a - b)[times.length >> 1];
    const output = Math.round(this.#taps.outputMs);
    return (
      `${Math.round(middle)} ms, measured: a chirp through the call and back, the middle of ${times.length}. ` +
      `Your loudspeaker adds about ${output} ms; what the microphone adds cannot be seen from here.`
    );
  }

  #estimateInWords() {
    const ms = this.#figures?.mouthToEarMs ?? null;
    if (ms === null) return "Not known yet. Try again in a few seconds.";
    return (
      `About ${Math.round(ms)} ms, estimated from the round trip and the buffers on the way: ` +
      "this agent does not say back what it hears, so no sound can be timed."
    );
  }
}
