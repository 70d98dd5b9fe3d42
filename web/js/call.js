/** One call: from the click to its end, with a reason. Knows no element of the page. */

import { Connection } from "./connection.js";
import { openMicrophone, release } from "./microphone.js";
import { CallProblem } from "./problems.js";
import { fetchInfo } from "./server.js";

const CONNECT_TIMEOUT_MS = 15_000;
const READY_TIMEOUT_MS = 30_000;
/**
 * How long after each try to come back the next one begins; after the last one the call is lost.
 * Close together, since a server keeps a lost call for about ten seconds.
 */
const RETRY_AFTER_MS = [3_000, 3_000, 6_000];
/** How long a try to come back waits for new credentials of a relay. */
const NEW_CREDENTIALS_MS = 1_000;

/**
 * Events, each a CustomEvent:
 * `state`: {state: "requesting" | "connecting" | "opening" | "live" | "interrupted", attempt},
 * `stream`: {side: "you" | "agent", stream}, `message`: a message of the text channel, `rtt`: ms,
 * `resumed`: {anew: whether the server had let the conversation go}, `microphone-lost`,
 * and once, last: `over`: {problem} or {reason, message, byCaller}.
 */
export class Call extends EventTarget {
  #options;
  #state = "new";
  #connection = null;
  /** A new connection, before the server has answered for it. */
  #next = null;
  #pcId = null;
  #iceServers = [];
  #stream = null;
  #deadline = null;
  #muted = false;
  #askedAt = 0;
  #attempt = 0;

  /** ms from the granted microphone to the agent being ready. */
  answeredInMs = null;
  /** `performance.now()` when the call went live. */
  liveAt = null;

  /** @param {{microphone: string, requestData: {voice?: string, persona?: string}}} options */
  constructor(options) {
    super();
    this.#options = options;
  }

  get state() {
    return this.#state;
  }

  get isOver() {
    return this.#state === "over";
  }

  get muted() {
    return this.#muted;
  }

  /** Settings of the microphone in use, {} before there is one. @returns {MediaTrackSettings} */
  get microphone() {
    return this.#stream?.getAudioTracks()[0].getSettings() ?? {};
  }

  /** ms since the call went live, 0 before. */
  get elapsedMs() {
    return this.liveAt === null ? 0 : performance.now() - this.liveAt;
  }

  async start() {
    try {
      await this.#open();
    } catch (error) {
      if (this.isOver) return;
      this.#finish({ problem: asProblem(error) });
    }
  }

  async #open() {
    this.#enter("requesting");
    // Asked in parallel: ICE credentials live for a short time, and slots change.
    const asked = fetchInfo();
    asked.catch(() => {});
    const stream = await openMicrophone(this.#options.microphone);
    if (this.isOver) return release(stream);
    this.#takeStream(stream);

    this.#askedAt = performance.now();
    this.#enter("connecting");
    this.#setDeadline(CONNECT_TIMEOUT_MS, () => this.#noPath());
    this.#iceServers = (await asked).ice_servers ?? [];
    if (this.isOver) return;

    this.#use(new Connection(stream, this.#iceServers));
    this.#pcId = await this.#connection.open(this.#options.requestData, null, () => !this.isOver);
  }

  /** @param {Connection} connection what it reports counts from now on */
  #use(connection) {
    this.#connection = connection;
    const on = (type, act) =>
      connection.addEventListener(type, ({ detail }) => {
        if (this.#connection === connection && !this.isOver) act(detail);
      });
    on("stream", (stream) => this.#tell("stream", { side: "agent", stream }));
    on("message", (message) => this.#message(message));
    on("rtt", (ms) => this.#tell("rtt", ms));
    on("change", () => this.#connectionChanged());
    on("closed", () => {
      // While the call is being taken up again, the server closes the connection that was lost.
      if (this.#state !== "interrupted") this.#finish({ reason: "peer_closed" });
    });
  }

  #connectionChanged() {
    const { isUp, isConnected, isQuiet, hasFailed } = this.#connection;
    if (hasFailed && this.liveAt === null) {
      if (this.#state === "connecting") this.#noPath();
      else this.#finish({ reason: "connection_lost" });
    } else if (this.#state === "connecting" && isUp) {
      this.#enter("opening");
      this.#setDeadline(READY_TIMEOUT_MS, () =>
        this.#finish({ problem: new CallProblem("agent_silent") }),
      );
    } else if (this.#state === "live" && (!isConnected || isQuiet)) {
      this.#attempt = 0;
      this.#comeBack();
    } else if (this.#state === "interrupted" && isUp && !isQuiet) {
      this.#recovered();
    }
  }

  /** Offer another connection for the same call: the server keeps the conversation for a while. */
  #comeBack() {
    if (this.#attempt === RETRY_AFTER_MS.length) {
      this.#finish({ reason: "connection_lost" });
      return;
    }
    const retryAfterMs = RETRY_AFTER_MS[this.#attempt];
    this.#attempt += 1;
    this.#enter("interrupted");
    this.#setDeadline(retryAfterMs, () => this.#comeBack());
    void this.#offerAgain();
  }

  async #offerAgain() {
    void this.#next?.close();
    if (this.#hasTurn) await this.#renewCredentials();
    if (this.#state !== "interrupted") return;
    const next = new Connection(this.#stream, this.#iceServers, this.#connection.lastSeq);
    this.#next = next;
    const lost = this.#connection;
    // The old connection stays until the server has answered for the new one: a closed connection
    // is a hang-up to the server, and the old one may yet come back by itself.
    try {
      const wanted = () => this.#next === next && this.#state === "interrupted";
      let stream = null;
      next.addEventListener("stream", ({ detail }) => (stream = detail), { once: true });
      const pcId = await next.open(this.#options.requestData, this.#pcId, wanted);
      if (pcId === null) return;
      this.#next = null;
      this.#use(next);
      if (stream) this.#tell("stream", { side: "agent", stream });
      void lost.close();
      const anew = pcId !== this.#pcId;
      if (anew) next.forgetSeq();
      this.#pcId = pcId;
      this.#tell("resumed", { anew });
      this.#connectionChanged();
    } catch (error) {
      // The next try, or the end of the tries, follows in its time.
      console.info("not taken up again:", error.code ?? error.message);
      void next.close();
    }
  }

  #recovered() {
    this.#setDeadline(null);
    void this.#next?.close();
    this.#next = null;
    this.#enter("live");
    if (this.#muted) this.#connection.send({ type: "mute", muted: true });
  }

  #message(message) {
    if (message.type === "ready") this.#live();
    this.#tell("message", message);
    if (message.type === "ended") {
      this.#finish({ reason: message.reason ?? "ended", message: message.message });
    }
  }

  #live() {
    if (this.liveAt !== null) return;
    this.liveAt = performance.now();
    this.answeredInMs = this.liveAt - this.#askedAt;
    this.#setDeadline(null);
    this.#enter("live");
    if (this.#muted) this.#connection.send({ type: "mute", muted: true });
  }

  get #hasTurn() {
    return this.#iceServers.some((server) =>
      [server.urls].flat().some((address) => /^turns?:/i.test(address)),
    );
  }

  /** A relay's credentials expire, and a call may be older. If no new ones come, the old may do. */
  async #renewCredentials() {
    const renewed = fetchInfo().then(
      (info) => (this.#iceServers = info.ice_servers ?? []),
      () => {},
    );
    const waited = new Promise((resolve) => setTimeout(resolve, NEW_CREDENTIALS_MS));
    await Promise.race([renewed, waited]);
  }

  #noPath() {
    const hasTurn = this.#hasTurn;
    const relayFault = this.#connection?.relayFault ?? null;
    this.#finish({ problem: new CallProblem("no_network_path", { hasTurn, relayFault }) });
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.#muted = muted;
    for (const track of this.#stream?.getAudioTracks() ?? []) track.enabled = !muted;
    this.#connection?.send({ type: "mute", muted });
  }

  /**
   * Change to another microphone without a gap in the call; the old one stays if that fails.
   * @param {string} id @throws {CallProblem}
   */
  async changeMicrophone(id) {
    if (this.#stream === null) return;
    const stream = await openMicrophone(id);
    if (this.isOver) return release(stream);
    await this.#connection?.replaceTrack(stream.getAudioTracks()[0]);
    if (this.isOver) return release(stream);
    const before = this.#stream;
    this.#takeStream(stream);
    release(before);
  }

  /** Send this instead of the microphone; null for the microphone again. */
  async sendInstead(track) {
    if (this.isOver) return;
    await this.#connection.replaceTrack(track ?? this.#stream.getAudioTracks()[0]);
  }

  #takeStream(stream) {
    this.#stream = stream;
    const [track] = stream.getAudioTracks();
    track.enabled = !this.#muted;
    track.addEventListener("ended", () => {
      if (this.#stream === stream && !this.isOver) this.#tell("microphone-lost");
    });
    this.#tell("stream", { side: "you", stream });
  }

  hangUp() {
    this.#finish({ reason: "caller_hangup", byCaller: true });
  }

  /** Hang up because the page goes away. */
  leave() {
    if (!this.isOver) this.#connection?.leave();
    this.hangUp();
  }

  /** @returns {Promise<RTCStatsReport | null>} */
  async stats() {
    return this.isOver ? null : (this.#connection?.stats() ?? null);
  }

  #enter(state) {
    this.#state = state;
    this.#tell("state", { state, attempt: this.#attempt });
  }

  #setDeadline(ms, late) {
    clearTimeout(this.#deadline);
    this.#deadline = ms === null ? null : setTimeout(late, ms);
  }

  /** Every way out of a call ends here: the microphone is let go whatever happened. */
  #finish(outcome) {
    if (this.isOver) return;
    this.#state = "over";
    this.#setDeadline(null);
    release(this.#stream);
    void this.#next?.close();
    void this.#connection?.close(outcome.byCaller);
    this.#tell("over", outcome);
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function asProblem(error) {
  if (error instanceof CallProblem) return error;
  console.error(error);
  return new CallProblem("call_failed", { message: `${error.name}: ${error.message}` });
}
