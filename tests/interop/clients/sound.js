/** Whether a page hears something: energy that came out of the decoder, and packets. */

/** @param {RTCPeerConnection} peer */
export async function received(peer) {
  const report = await peer.getStats();
  for (const stats of report.values()) {
    if (stats.type === "inbound-rtp" && stats.kind === "audio") {
      return {
        packets: stats.packetsReceived ?? 0,
        lost: stats.packetsLost ?? 0,
        energy: stats.totalAudioEnergy ?? 0,
      };
    }
  }
  return { packets: 0, lost: 0, energy: 0 };
}

/** Every peer connection that the page has made, oldest first. */
export const peers = [];
const Real = window.RTCPeerConnection;
window.RTCPeerConnection = class extends Real {
  constructor(...options) {
    super(...options);
    peers.push(this);
    this.addEventListener("track", ({ track }) => {
      if (track.kind === "audio") play(track);
    });
  }
};

const players = [];

/** Play a remote track, which is the application's part with some clients. */
function play(track) {
  const element = new Audio();
  players.push(element);
  element.srcObject = new MediaStream([track]);
  return element.play();
}

/** What the newest connection has received. */
export const latest = () => received(peers.at(-1));
