/** Whether the agent hears itself: its sound, looked for in what the microphone picks up. */

/** Levels of 10 ms each. */
const WINDOW = 600;
const EVERY = 100;
/** From the page's output to its input: loudspeaker, room and microphone. */
const LAGS = { from: 2, to: 50 };
const LIKE = 0.6;
/** Both are at least so loud when it matters (−50 and −60 dBFS). */
const AGENT_ACTIVE = 0.003;
const MIC_ACTIVE = 0.001;
const ACTIVE_SHARE = 0.15;
/** Looks in a row that have to find it. */
const SURE = 3;

/**
 * @param {number[]} agent levels of the agent's sound @param {number[]} mic at the same times
 * @returns {{likeness: number, lagMs: number} | null} null where the agent was not heard enough
 */
export function findEcho(agent, mic) {
  const active = agent.filter((level) => level > AGENT_ACTIVE).length / agent.length;
  const loudest = mic.reduce((most, level) => Math.max(most, level), 0);
  if (active < ACTIVE_SHARE || active > 0.95) return null;
  if (loudest < MIC_ACTIVE) return { likeness: 0, lagMs: 0 };
  let best = { likeness: -1, lagMs: 0 };
  for (let lag = LAGS.from; lag <= LAGS.to; lag += 1) {
    const likeness = correlation(agent.slice(0, agent.length - lag), mic.slice(lag));
    if (likeness > best.likeness) best = { likeness, lagMs: lag * 10 };
  }
  return best;
}

function correlation(a, b) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanA, meanB] = [mean(a), mean(b)];
  let [both, squareA, squareB] = [0, 0, 0];
  for (let at = 0; at < a.length; at += 1) {
    const [x, y] = [a[at] - meanA, b[at] - meanB];
    both += x * y;
    squareA += x * x;
    squareB += y * y;
  }
  return both / (Math.sqrt(squareA * squareB) || 1);
}

/** Watches a call through its taps. */
export class EchoWatch {
  #agent = [];
  #mic = [];
  #since = 0;
  #found = 0;

  /** ms from the loudspeaker to the microphone when there is an echo, else null. */
  lagMs = null;

  /** @param {import("./taps.js").Taps} taps */
  async start(taps) {
    if (!taps.context?.audioWorklet) return;
    try {
      const ears = await taps.ears();
      ears.port.onmessage = ({ data: [mic, agent] }) => this.add(mic, agent);
      taps.listen("you", ears, 0);
      taps.listen("agent", ears, 1);
    } catch (error) {
      if (error.name !== "AbortError") console.warn("no look-out for echo:", error.message);
    }
  }

  /** One level each, of the same 10 ms. */
  add(mic, agent) {
    this.#mic.push(mic);
    this.#agent.push(agent);
    if (this.#mic.length > WINDOW) {
      this.#mic.shift();
      this.#agent.shift();
    }
    this.#since += 1;
    if (this.#mic.length < WINDOW || this.#since < EVERY) return;
    this.#since = 0;
    const echo = findEcho(this.#agent, this.#mic);
    if (echo === null) return;
    this.#found = echo.likeness > LIKE ? this.#found + 1 : 0;
    this.lagMs = this.#found >= SURE ? echo.lagMs : null;
  }

  /** @returns {{code: string, title: string, text: string}[]} */
  advice() {
    if (this.lagMs === null) return [];
    return [
      {
        code: "echo",
        title: "The agent hears itself through your loudspeaker.",
        text: "It may answer itself or stop mid-sentence. Use a headset, turn the sound down, or hold M to mute while it talks.",
      },
    ];
  }
}
