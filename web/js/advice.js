/** What the figures mean, in plain words: what is wrong, and what to do about it. */

/** Of the last readings, how many have to be bad before anything is said. */
const READINGS = 6;
const BAD = 4;

const round = Math.round;

const FEWER_CALLS = "Fewer calls at a time would help";
const TOO_SLOW = "Its machine is too slow for this agent, or busy with something else";

/** @type {Record<string, {is: (f: import("./quality.js").Figures) => boolean, say: (f: any) => {title: string, text: string}}>} */
const RULES = {
  lossUp: {
    is: (f) => f.lossUpPercent > 3,
    say: (f) => ({
      title: `${round(f.lossUpPercent)} % of your sound gets lost on its way to the agent.`,
      text: "Go nearer to the Wi-Fi, use a cable, or stop uploads on this network.",
    }),
  },
  lossDown: {
    is: (f) => f.lossDownPercent > 3,
    say: (f) => ({
      title: `${round(f.lossDownPercent)} % of the agent's sound gets lost on its way to you.`,
      text: "Go nearer to the Wi-Fi, use a cable, or stop downloads and videos on this network.",
    }),
  },
  concealed: {
    is: (f) => f.concealedPercent > 5 && !(f.lossPercent > 3),
    say: () => ({
      title: "Sound arrives too late to be played, and is filled in.",
      text: "The network holds packets back. A cable helps, and so does closing other calls and downloads.",
    }),
  },
  far: {
    is: (f) => f.rttMs > 250,
    say: (f) => ({
      title: `The way to the server and back takes ${round(f.rttMs)} ms.`,
      text: "Answers come late. Switch a VPN off, or use a server that is nearer.",
    }),
  },
  jitter: {
    is: (f) => f.jitterMs > 40 && !(f.lossPercent > 3),
    say: () => ({
      title: "The network delivers unevenly.",
      text: "Sound has to wait so that it does not break up. A cable, or a better place for Wi-Fi, shortens the wait.",
    }),
  },
  browser: {
    is: (f) => f.browserMs > 250,
    say: (f) => ({
      title: `This browser holds the agent's sound back for ${round(f.browserMs)} ms.`,
      text: "It does so after an uneven stretch and comes down slowly. If it stays, hang up and call again.",
    }),
  },
  server: {
    is: (f) => f.droppedMs > 0 || f.underruns > 2 || f.serverMs > 400,
    say: (f) => ({
      title: "The server cannot keep up.",
      text: `The agent may stutter or miss words. ${f.hasOthers ? FEWER_CALLS : TOO_SLOW}; whoever runs the server finds the figures in its metrics.`,
    }),
  },
};

/** Follows the figures, and says what has been wrong for some time. */
export class Advice {
  #history = [];

  /** @param {import("./quality.js").Figures & {hasOthers: boolean}} figures @returns {{code: string, title: string, text: string}[]} */
  take(figures) {
    this.#history.push(figures);
    if (this.#history.length > READINGS) this.#history.shift();
    return Object.entries(RULES)
      .filter(([, { is }]) => this.#history.filter(is).length >= BAD)
      .map(([code, { is, say }]) => ({ code, ...say(this.#history.findLast(is)) }));
  }
}
