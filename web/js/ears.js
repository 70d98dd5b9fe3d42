/**
 * On the audio thread: hears two inputs on one clock, and posts them as samples or as levels, until
 * it is sent any message.
 */

const LEVEL_MS = 10;

class Ears extends AudioWorkletProcessor {
  constructor({ processorOptions: { samples = false } }) {
    super();
    this.samples = samples;
    this.length = Math.round((sampleRate * LEVEL_MS) / 1_000);
    this.sums = [0, 0];
    this.count = 0;
    this.listening = true;
    this.port.onmessage = () => (this.listening = false);
  }

  process(inputs) {
    const sides = inputs.map((input) => input[0]);
    if (this.samples) {
      const silence = new Float32Array(128);
      this.port.postMessage({
        frame: currentFrame,
        sides: sides.map((side) => (side ?? silence).slice()),
      });
    } else {
      this.level(sides);
    }
    return this.listening;
  }

  /** The root mean square of each stretch of 10 ms. */
  level(sides) {
    const length = sides[0]?.length ?? sides[1]?.length ?? 128;
    for (let at = 0; at < length; at += 1) {
      sides.forEach((side, index) => {
        const sample = side ? side[at] : 0;
        this.sums[index] += sample * sample;
      });
      this.count += 1;
      if (this.count < this.length) continue;
      this.port.postMessage(this.sums.map((sum) => Math.sqrt(sum / this.length)));
      this.sums = [0, 0];
      this.count = 0;
    }
  }
}

registerProcessor("ears", Ears);
