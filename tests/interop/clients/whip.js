/** whip-whep: publish with one class, listen with the other. */

import { WHEPClient } from "whip-whep/whep.js";
import { WHIPClient } from "whip-whep/whip.js";

let whip;
let whep;
let publishing;
let listening;

/** @param {"sendrecv" | "sendonly"} direction */
export async function publish(server, direction) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  publishing = new RTCPeerConnection();
  publishing.addTransceiver(stream.getAudioTracks()[0], { direction, streams: [stream] });
  whip = new WHIPClient();
  await whip.publish(publishing, `${server}/whip`);
  return { resource: String(whip.resourceURL), etag: whip.etag };
}

/** Seek another network path for the same session; the selected one's local user fragment, by and by. */
export async function restart() {
  await whip.restart();
  return whip.etag;
}

export async function path() {
  const report = await publishing.getStats();
  const transport = [...report.values()].find(({ type }) => type === "transport");
  const pair = report.get(transport?.selectedCandidatePairId);
  return report.get(pair?.localCandidateId)?.usernameFragment;
}

export async function listen(server, callId, token) {
  listening = new RTCPeerConnection();
  listening.addTransceiver("audio", { direction: "recvonly" });
  whep = new WHEPClient();
  try {
    await whep.view(listening, `${server}/whep/${callId}`, token);
  } catch (error) {
    return error.message;
  }
  return "listening";
}

export const states = () => ({
  publishing: publishing?.connectionState,
  listening: listening?.connectionState,
});
export const direction = () => publishing.getTransceivers()[0].currentDirection;
export const unpublish = () => whip.stop();
export const unlisten = () => whep.stop();
