/** The native text channel: JSON messages, in order, with ping and pong to measure the way. */

const PING_EVERY_MS = 1_000;
/** The server keeps a lost call for a few seconds only, so silence is noticed early. */
const PONG_DUE_MS = 4_000;
const PINGS_REMEMBERED = 16;

/**
 * Events: `open`, `close`, `message` (detail: the parsed message), `rtt` (detail: ms),
 * `quiet` (detail: true when pings go unanswered, false when answers come again).
 */
export class TextChannel extends EventTarget {
  #channel;
  #lastSeq;
  #pingId = 0;
  #sentAt = new Map();
  #unansweredSince = null;
  #quiet = false;
  #timer = null;
  #closed = false;

  /** @param {RTCPeerConnection} peer @param {number} lastSeq of the channel that this one goes on for */
  constructor(peer, lastSeq) {
    super();
    this.#lastSeq = lastSeq;
    this.#channel = peer.createDataChannel("text", { ordered: true });
    this.#channel.addEventListener("open", () => this.#opened());
    this.#channel.addEventListener("close", () => this.close());
    this.#channel.addEventListener("message", (event) => this.#received(event.data));
  }

  get isOpen() {
    return this.#channel.readyState === "open";
  }

  get lastSeq() {
    return this.#lastSeq;
  }

  /** What comes next is counted anew. */
  forgetSeq() {
    this.#lastSeq = -1;
  }

  /** @param {object} message @returns {boolean} whether it was handed to the connection */
  send(message) {
    if (!this.isOpen) return false;
    this.#channel.send(JSON.stringify(message));
    return true;
  }

  /** Wait until what was sent has left, or the time is over. */
  async drained(timeoutMs) {
    const until = performance.now() + timeoutMs;
    while (this.isOpen && this.#channel.bufferedAmount > 0 && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#timer);
    this.dispatchEvent(new Event("close"));
  }

  #opened() {
    this.#ping();
    this.#timer = setInterval(() => this.#ping(), PING_EVERY_MS);
    this.dispatchEvent(new Event("open"));
  }

  #ping() {
    // Counted from the first ping that nothing followed: a browser may hold this timer back in a
    // hidden tab, and a pause in asking is no pause in answering.
    const now = performance.now();
    this.#unansweredSince ??= now;
    this.#setQuiet(now - this.#unansweredSince > PONG_DUE_MS);
    const id = ++this.#pingId;
    this.#sentAt.set(id, now);
    this.#sentAt.delete(id - PINGS_REMEMBERED);
    this.send({ type: "ping", id });
  }

  #received(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      console.warn("a message on the text channel is not JSON");
      return;
    }
    // A message that is older than one already shown must not overwrite it.
    if (Number.isInteger(message.seq)) {
      if (message.seq <= this.#lastSeq) return;
      this.#lastSeq = message.seq;
    }
    this.#unansweredSince = null;
    this.#setQuiet(false);
    if (message.type === "pong") this.#pong(message.id);
    else this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  #pong(id) {
    const sent = this.#sentAt.get(id);
    if (sent === undefined) return;
    this.#sentAt.delete(id);
    this.dispatchEvent(new CustomEvent("rtt", { detail: performance.now() - sent }));
  }

  #setQuiet(quiet) {
    if (quiet === this.#quiet) return;
    this.#quiet = quiet;
    this.dispatchEvent(new CustomEvent("quiet", { detail: quiet }));
  }
}
