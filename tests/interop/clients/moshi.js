/**
 * Moshi's protocol as its web page speaks it: opus-recorder's encoder and decoder workers, the same
 * settings, and the same order: nothing is sent before the handshake.
 */

import Recorder from "opus-recorder";

const SAMPLE_RATE = 24000;
export const log = [];
export const heard = { samples: 0, energy: 0 };
let socket;
let recorder;

export function connect(server, query) {
  const decoder = new Worker("/opus-recorder/decoderWorker.min.js");
  decoder.postMessage({
    command: "init",
    bufferLength: 960,
    decoderSampleRate: SAMPLE_RATE,
    outputBufferSampleRate: SAMPLE_RATE,
    resampleQuality: 0,
  });
  decoder.onmessage = ({ data }) => {
    if (!data) return;
    heard.samples += data[0].length;
    for (const sample of data[0]) heard.energy += sample * sample;
  };
  socket = new WebSocket(`${server.replace("http", "ws")}/api/chat?${query}`);
  socket.binaryType = "arraybuffer";
  socket.onclose = ({ code }) => log.push(["closed", code]);
  return new Promise((resolve, reject) => {
    socket.onerror = () => reject(new Error("the WebSocket was refused"));
    socket.onmessage = ({ data }) => {
      const message = new Uint8Array(data);
      const payload = message.slice(1);
      if (message[0] === 0) resolve(record());
      else if (message[0] === 1) decoder.postMessage({ command: "decode", pages: payload }, [payload.buffer]);
      else if (message[0] === 2) log.push(["text", new TextDecoder().decode(payload)]);
      else log.push(["kind", message[0]]);
    };
  });
}

async function record() {
  recorder = new Recorder({
    encoderPath: "/opus-recorder/encoderWorker.min.js",
    bufferLength: 960,
    encoderFrameSize: 20,
    encoderSampleRate: SAMPLE_RATE,
    maxFramesPerPage: 2,
    numberOfChannels: 1,
    recordingGain: 1,
    resampleQuality: 3,
    encoderComplexity: 0,
    encoderApplication: 2049,
    streamPages: true,
  });
  recorder.ondataavailable = (page) => {
    const message = new Uint8Array(page.length + 1);
    message[0] = 1;
    message.set(page, 1);
    if (socket.readyState === WebSocket.OPEN) socket.send(message);
  };
  await recorder.start();
}

export function close() {
  recorder.stop();
  socket.close();
}
