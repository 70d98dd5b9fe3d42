/** Trickle: candidates that were found after the offer left, sent on in small batches. */

import { patchCandidates } from "./server.js";

const BATCH_MS = 100;

/** Resolves when the browser has gathered all candidates, or after `limitMs`. */
export function gathered(peer, limitMs) {
  if (peer.iceGatheringState === "complete") return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limitMs);
    peer.addEventListener("icegatheringstatechange", () => {
      if (peer.iceGatheringState !== "complete") return;
      clearTimeout(timer);
      resolve();
    });
  });
}

export class CandidateTrickle {
  #queue = [];
  #pcId = null;
  #timer = null;

  /** Create it when the offer is taken: what comes from then on is not in it. */
  constructor(peer) {
    this.peer = peer;
    this.listener = (event) => this.#found(event.candidate);
    peer.addEventListener("icecandidate", this.listener);
  }

  /** The call is known to the server: what waits can go. @param {string} pcId */
  begin(pcId) {
    this.#pcId = pcId;
    this.#schedule();
  }

  close() {
    this.peer.removeEventListener("icecandidate", this.listener);
    clearTimeout(this.#timer);
    this.#queue = [];
  }

  #found(candidate) {
    // The end of the candidates travels as an empty one.
    this.#queue.push(candidate?.toJSON() ?? { candidate: "", sdpMid: "0", sdpMLineIndex: 0 });
    this.#schedule();
  }

  #schedule() {
    if (this.#timer !== null || this.#pcId === null || this.#queue.length === 0) return;
    this.#timer = setTimeout(() => this.#flush(), BATCH_MS);
  }

  async #flush() {
    const batch = this.#queue.splice(0);
    try {
      await patchCandidates(this.#pcId, batch);
    } catch (problem) {
      // The candidates already exchanged may do; if not, the connect timeout says so.
      console.warn("candidates were not taken:", problem.code);
    }
    this.#timer = null;
    this.#schedule();
  }
}
