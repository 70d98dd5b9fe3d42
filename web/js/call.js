/** One call: from the click to its end, with a reason. Knows no element of the page. */

import { CandidateTrickle, gathered } from "./candidates.js";
import { TextChannel } from "./channel.js";
import { openMicrophone, release } from "./microphone.js";
import { CallProblem } from "./problems.js";
import { fetchInfo, postOffer } from "./server.js";

const CONNECT_TIMEOUT_MS = 15_000;
const READY_TIMEOUT_MS = 30_000;
const INTERRUPTED_LIMIT_MS = 12_000;
const GATHER_LIMIT_MS = 300;
const HANGUP_FLUSH_MS = 200;

/**
 * Events, each a CustomEvent:
 * `state`: {state: "requesting" | "connecting" | "opening" | "live" | "interrupted"},
 * `stream`: {side: "you" | "agent", stream}, `message`: a message of the text channel,
 * `rtt`: ms, `microphone-lost`, and once, last: `over`: {problem} or {reason, message, byCaller}.
 */
export class Call extends EventTarget {
  #options;
  #state = "new";
  #peer = null;
  #channel = null;
  #trickle = null;
  #sender = null;
  #stream = null;
  #deadline = null;
  #connected = false;
  #quiet = false;
  #muted = false;
  #askedAt = 0;

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

  /** Device id of the microphone in use, "" before there is one. */
  get microphone() {
    return this.#stream?.getAudioTracks()[0].getSettings().deviceId ?? "";
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
    this.iceServers = (await asked).ice_servers ?? [];
    if (this.isOver) return;

    const peer = this.#makePeer();
    await peer.setLocalDescription(await peer.createOffer());
    await gathered(peer, GATHER_LIMIT_MS);
    if (this.isOver) return;
    const offer = peer.localDescription;
    this.#trickle = new CandidateTrickle(peer);
    const answer = await postOffer(offer, this.#options.requestData);
    if (this.isOver) return;
    await peer.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    if (this.isOver) return;
    this.#trickle.begin(answer.pc_id);
  }

  #makePeer() {
    const peer = new RTCPeerConnection({ iceServers: this.iceServers, bundlePolicy: "max-bundle" });
    this.#peer = peer;
    const transceiver = peer.addTransceiver(this.#stream.getAudioTracks()[0], {
      direction: "sendrecv",
      streams: [this.#stream],
    });
    this.#sender = transceiver.sender;
    peer.addEventListener("track", ({ track, streams }) => {
      this.#tell("stream", { side: "agent", stream: streams[0] ?? new MediaStream([track]) });
    });
    peer.addEventListener("connectionstatechange", () => this.#connectionChanged());

    this.#channel = new TextChannel(peer);
    this.#channel.addEventListener("open", () => this.#pathStands());
    this.#channel.addEventListener("close", () => this.#finish({ reason: "peer_closed" }));
    this.#channel.addEventListener("message", ({ detail }) => this.#message(detail));
    this.#channel.addEventListener("rtt", ({ detail }) => this.#tell("rtt", detail));
    this.#channel.addEventListener("quiet", ({ detail }) => {
      this.#quiet = detail;
      this.#updateInterruption();
    });
    return peer;
  }

  #connectionChanged() {
    if (this.isOver) return;
    const state = this.#peer.connectionState;
    this.#connected = state === "connected";
    if (state === "failed" || state === "closed") {
      if (this.liveAt === null && this.#state === "connecting") this.#noPath();
      else this.#finish({ reason: "connection_lost" });
      return;
    }
    this.#pathStands();
    this.#updateInterruption();
  }

  /** Sound and text can both pass: what remains is the agent. */
  #pathStands() {
    if (this.#state !== "connecting" || !this.#connected || !this.#channel.isOpen) return;
    this.#enter("opening");
    this.#setDeadline(READY_TIMEOUT_MS, () =>
      this.#finish({ problem: new CallProblem("agent_silent") }),
    );
  }

  #message(message) {
    if (message.type === "ready") this.#live();
    this.#tell("message", message);
    if (message.type === "ended") {
      this.#finish({ reason: message.reason ?? "ended", message: message.message });
    }
  }

  #live() {
    if (this.liveAt !== null || this.isOver) return;
    this.liveAt = performance.now();
    this.answeredInMs = this.liveAt - this.#askedAt;
    this.#setDeadline(null);
    this.#enter("live");
    if (this.#muted) this.#channel.send({ type: "mute", muted: true });
  }

  #updateInterruption() {
    const interrupted = !this.#connected || this.#quiet;
    if (this.#state === "live" && interrupted) {
      this.#enter("interrupted");
      this.#setDeadline(INTERRUPTED_LIMIT_MS, () => this.#finish({ reason: "connection_lost" }));
    } else if (this.#state === "interrupted" && !interrupted) {
      this.#setDeadline(null);
      this.#enter("live");
    }
  }

  #noPath() {
    const hasTurn = (this.iceServers ?? []).some((server) =>
      [server.urls].flat().some((address) => /^turns?:/i.test(address)),
    );
    this.#finish({ problem: new CallProblem("no_network_path", { hasTurn }) });
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.#muted = muted;
    for (const track of this.#stream?.getAudioTracks() ?? []) track.enabled = !muted;
    this.#channel?.send({ type: "mute", muted });
  }

  /**
   * Change to another microphone without a gap in the call; the old one stays if that fails.
   * @param {string} id @throws {CallProblem}
   */
  async changeMicrophone(id) {
    if (this.#stream === null) return;
    const stream = await openMicrophone(id);
    if (this.isOver) return release(stream);
    await this.#sender?.replaceTrack(stream.getAudioTracks()[0]);
    if (this.isOver) return release(stream);
    const before = this.#stream;
    this.#takeStream(stream);
    release(before);
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

  /** @returns {Promise<RTCStatsReport | null>} */
  async stats() {
    return this.isOver || this.#peer === null ? null : this.#peer.getStats();
  }

  #enter(state) {
    this.#state = state;
    this.#tell("state", { state });
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
    this.#trickle?.close();
    void this.#closePeer(outcome.byCaller);
    this.#tell("over", outcome);
  }

  async #closePeer(byCaller) {
    if (byCaller && this.#channel?.send({ type: "hangup" })) {
      await this.#channel.drained(HANGUP_FLUSH_MS);
    }
    this.#channel?.close();
    this.#peer?.close();
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
