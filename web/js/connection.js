/** One WebRTC connection of a call: sound both ways and the text channel. A call may need several. */

import { CandidateTrickle, gathered } from "./candidates.js";
import { TextChannel } from "./channel.js";
import { UNREACHABLE } from "./problems.js";
import { postHangUp, postOffer } from "./server.js";

const GATHER_LIMIT_MS = 300;
const HANGUP_FLUSH_MS = 200;

/**
 * Events: `change` (ask `isUp`, `isQuiet`, `hasFailed`), `closed`: the other side is gone for good,
 * `stream` (detail: MediaStream of the agent), `message` and `rtt` as of the text channel.
 */
export class Connection extends EventTarget {
  #peer;
  #channel;
  #trickle = null;
  #sender;
  #quiet = false;
  #closed = false;
  #relayFault = null;
  /** The call's id, once the server has answered. */
  #answeredAs = null;

  /** @param {MediaStream} stream of the caller @param {RTCIceServer[]} iceServers @param {number} lastSeq */
  constructor(stream, iceServers, lastSeq = -1) {
    super();
    this.#peer = new RTCPeerConnection({ iceServers, bundlePolicy: "max-bundle" });
    const options = { direction: "sendrecv", streams: [stream] };
    this.#sender = this.#peer.addTransceiver(stream.getAudioTracks()[0], options).sender;
    this.#peer.addEventListener("track", ({ track, streams }) => {
      this.#tell("stream", streams[0] ?? new MediaStream([track]));
    });
    this.#peer.addEventListener("connectionstatechange", () => this.#tell("change"));
    this.#peer.addEventListener("icecandidateerror", (event) => this.#candidateFailed(event));

    this.#channel = new TextChannel(this.#peer, lastSeq);
    this.#channel.addEventListener("open", () => this.#tell("change"));
    this.#channel.addEventListener("close", () => this.#tell("closed"));
    this.#channel.addEventListener("message", ({ detail }) => this.#tell("message", detail));
    this.#channel.addEventListener("rtt", ({ detail }) => this.#tell("rtt", detail));
    this.#channel.addEventListener("quiet", ({ detail }) => {
      this.#quiet = detail;
      this.#tell("change");
    });
  }

  /** Sound and text can both pass. */
  get isUp() {
    return this.isConnected && this.#channel.isOpen;
  }

  get isConnected() {
    return this.#peer.connectionState === "connected";
  }

  /** Connected, but nobody answers on the text channel. */
  get isQuiet() {
    return this.#quiet;
  }

  get hasFailed() {
    return ["failed", "closed"].includes(this.#peer.connectionState);
  }

  /** Why a TURN relay was of no use. @returns {RelayFault | null} */
  get relayFault() {
    return this.#relayFault;
  }

  get lastSeq() {
    return this.#channel.lastSeq;
  }

  /** Another conversation begins, which counts its messages from the start. */
  forgetSeq() {
    this.#channel.forgetSeq();
  }

  /**
   * Offer and take the answer.
   * @param {{voice?: string, persona?: string}} requestData
   * @param {string | null} pcId of the call to take up again, or null for a new one
   * @param {() => boolean} goesOn asked after each wait
   * @returns {Promise<string | null>} the call's id; null if it does not go on
   * @throws {CallProblem}
   */
  async open(requestData, pcId, goesOn) {
    const peer = this.#peer;
    await peer.setLocalDescription(await peer.createOffer());
    await gathered(peer, GATHER_LIMIT_MS);
    if (this.#closed || !goesOn()) return null;
    const offer = peer.localDescription;
    this.#trickle = new CandidateTrickle(peer);
    const answer = await postOffer(offer, requestData, pcId);
    if (this.#closed || !goesOn()) {
      // The server would keep a line for a new call that never connects. One that is taken up again
      // may go on over another connection.
      if (pcId === null) postHangUp(answer.pc_id).catch(() => {});
      return null;
    }
    this.#answeredAs = answer.pc_id;
    await peer.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    if (this.#closed || !goesOn()) return null;
    this.#trickle.begin(answer.pc_id);
    return answer.pc_id;
  }

  /** @param {object} message @returns {boolean} whether it was handed over */
  send(message) {
    return this.#channel.send(message);
  }

  /** @param {MediaStreamTrack} track takes the place of the one sent so far */
  replaceTrack(track) {
    return this.#sender.replaceTrack(track);
  }

  stats() {
    return this.#closed ? null : this.#peer.getStats();
  }

  /** @param {boolean} [hangUp] tell the server first that the call is over */
  async close(hangUp = false) {
    if (this.#closed) return;
    this.#closed = true;
    this.#trickle?.close();
    if (hangUp) await this.#hangUp();
    this.#channel.close();
    this.#peer.close();
  }

  /** Tell the server by a request that the call is over: of a page that goes away, what is on the
   * channel may never be sent. */
  leave() {
    if (this.#answeredAs !== null) postHangUp(this.#answeredAs).catch(() => {});
  }

  async #hangUp() {
    if (this.send({ type: "hangup" })) await this.#channel.drained(HANGUP_FLUSH_MS);
    else this.leave();
  }

  #candidateFailed({ url, errorCode, errorText }) {
    if (!/^turns?:/i.test(url ?? "")) return;
    // What the relay answered says more than that it cannot be reached from one of the addresses.
    if (this.#relayFault !== null && errorCode >= UNREACHABLE) return;
    this.#relayFault = { url, code: errorCode, text: errorText };
  }

  #tell(type, detail) {
    if (!this.#closed) this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
