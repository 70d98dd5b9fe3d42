/** @pipecat-ai/client-js over @pipecat-ai/small-webrtc-transport. */

import { PipecatClient } from "@pipecat-ai/client-js";
import { SmallWebRTCTransport, WavMediaManager } from "@pipecat-ai/small-webrtc-transport";

/** What the client called back with, in order: [name, argument]. */
export const log = [];
const NAMES = [
  "onConnected", "onDisconnected", "onTransportStateChanged", "onBotReady", "onBotDisconnected",
  "onError", "onMessageError", "onUserStartedSpeaking", "onUserStoppedSpeaking",
  "onBotStartedSpeaking", "onBotStoppedSpeaking", "onBotLlmText", "onBotTtsText", "onBotOutput",
  "onBotTranscript", "onBotLlmStarted", "onBotLlmStopped", "onMetrics", "onServerMessage",
];

let client;

const callbacks = () =>
  Object.fromEntries(NAMES.map((name) => [name, (data) => log.push([name, plain(data)])]));

const plain = (data) => JSON.parse(JSON.stringify(data ?? null));

/** The default media manager fetches its own code from a host of its maker; this one does not. */
const make = () =>
  new PipecatClient({
    transport: new SmallWebRTCTransport({ mediaManager: new WavMediaManager() }),
    enableMic: true,
    enableCam: false,
    callbacks: callbacks(),
  });

/** Straight to the offer. */
export async function connect(server, requestData) {
  client = make();
  return await client.connect({
    webrtcRequestParams: { endpoint: `${server}/api/offer`, requestData },
  });
}

/** By way of `POST /start`. */
export async function startAndConnect(server, body) {
  client = make();
  return await client.startBotAndConnect({
    endpoint: `${server}/start`,
    requestData: { transport: "webrtc", enableDefaultIceServers: true, body },
  });
}

export const disconnect = () => client.disconnect();
export const enableMic = (enable) => client.enableMic(enable);
export const sendDtmf = (keys) => client.sendDTMF(keys);
export const sendText = (text) => client.sendText(text);
export const disconnectBot = () => client.disconnectBot();
export const request = (type, data) =>
  client.sendClientRequest(type, data).then(
    (answer) => ({ answer }),
    (error) => ({ error: JSON.parse(JSON.stringify(error.data ?? String(error))) }),
  );
export const state = () => client.state;

/** What the transport does by itself when its connection is lost. */
export const reconnect = () => client.transport.attemptReconnection(true);
/**
 * small-webrtc-transport 1.10.8 stops the microphone's track with the old connection, though the
 * new one sends the same track: an application has to give it another.
 */
export async function refreshMicrophone() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  await client.transport.getAudioTransceiver().sender.replaceTrack(stream.getAudioTracks()[0]);
}

/** The same connection, offered anew. */
export const renegotiate = () => client.transport.attemptReconnection(false);
export const callId = () => client.transport.pc_id;
