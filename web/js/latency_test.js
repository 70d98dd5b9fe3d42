/** How long a sound takes through the call and back, measured with chirps that the agent returns. */

/** Correlated at this rate: enough for the chirp, and quick. */
const RATE = 8_000;
const CHIRPS = 3;
const APART_S = 2;
const FIRST_S = 0.6;
const CHIRP_S = 0.12;
const LOW_HZ = 500;
const HIGH_HZ = 3_000;
/** Normalised correlation from which a return counts. */
const SURE = 0.35;

/** @param {number} rate samples per second @returns {Float32Array} a rising tone with soft ends */
export function chirp(rate) {
  const samples = new Float32Array(Math.round(CHIRP_S * rate));
  for (let at = 0; at < samples.length; at += 1) {
    const t = at / rate;
    const phase = 2 * Math.PI * (LOW_HZ * t + ((HIGH_HZ - LOW_HZ) * t * t) / (2 * CHIRP_S));
    samples[at] = 0.5 * Math.sin(phase) * Math.sin((Math.PI * at) / samples.length) ** 0.5;
  }
  return samples;
}

/** @param {Float32Array} samples @param {number} rate theirs @returns {Float32Array} at 8 kHz */
export function decimate(samples, rate) {
  const step = rate / RATE;
  const out = new Float32Array(Math.floor(samples.length / step));
  for (let at = 0; at < out.length; at += 1) {
    const [from, to] = [Math.floor(at * step), Math.floor((at + 1) * step)];
    let sum = 0;
    for (let each = from; each < to; each += 1) sum += samples[each];
    out[at] = sum / (to - from);
  }
  return out;
}

/**
 * @param {Float32Array} heard at 8 kHz @param {Float32Array} wanted at 8 kHz
 * @returns {{at: number, likeness: number}} where it begins, in samples, and how like it is, 0 to 1
 */
export function find(heard, wanted) {
  const power = wanted.reduce((sum, sample) => sum + sample * sample, 0);
  let best = { at: 0, likeness: 0 };
  for (let at = 0; at + wanted.length <= heard.length; at += 1) {
    let both = 0;
    let here = 1e-6;
    for (let each = 0; each < wanted.length; each += 1) {
      both += heard[at + each] * wanted[each];
      here += heard[at + each] ** 2;
    }
    const likeness = Math.abs(both) / Math.sqrt(power * here);
    if (likeness > best.likeness) best = { at, likeness };
  }
  return best;
}

/**
 * Sends chirps in place of the microphone, and finds them in what comes back.
 * @param {import("./call.js").Call} call @param {import("./taps.js").Taps} taps
 * @returns {Promise<number[]>} ms of each chirp that came back; without microphone and loudspeaker
 */
export async function measureLatency(call, taps) {
  const context = taps.context;
  const ears = await taps.ears({ samples: true });
  const blocks = [];
  ears.port.onmessage = ({ data }) => blocks.push(data);
  taps.listen("agent", ears, 1);

  const samples = chirp(context.sampleRate);
  const buffer = context.createBuffer(1, samples.length, context.sampleRate);
  buffer.copyToChannel(samples, 0);
  const outlet = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
  const begin = context.currentTime + FIRST_S;
  for (let count = 0; count < CHIRPS; count += 1) {
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(outlet);
    source.connect(ears, 0, 0);
    source.start(begin + count * APART_S);
  }
  try {
    await call.sendInstead(outlet.stream.getAudioTracks()[0]);
    const lastS = FIRST_S + CHIRPS * APART_S;
    await new Promise((resolve) => setTimeout(resolve, lastS * 1_000 + 100));
  } finally {
    await call.sendInstead(null);
    taps.forget(ears);
    ears.port.postMessage("stop");
    ears.port.onmessage = null;
  }
  return returns(blocks, context.sampleRate);
}

function returns(blocks, rate) {
  const sides = [0, 1].map((side) => {
    const all = new Float32Array(blocks.length * 128);
    blocks.forEach((block, at) => all.set(block.sides[side], at * 128));
    return decimate(all, rate);
  });
  const wanted = decimate(chirp(rate), rate);
  const window = APART_S * RATE;
  const found = [];
  let from = 0;
  for (let count = 0; count < CHIRPS; count += 1) {
    const sent = find(sides[0].subarray(from, from + window), wanted);
    if (sent.likeness < 0.9) break;
    const start = from + sent.at;
    const back = find(sides[1].subarray(start, start + window), wanted);
    if (back.likeness >= SURE) found.push((1_000 * back.at) / RATE);
    from = start + window - RATE / 4;
  }
  return found;
}
