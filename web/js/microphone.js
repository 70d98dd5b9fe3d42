/** The caller's microphone: which there are, opening one, and what its errors mean. */

import { CallProblem } from "./problems.js";

const REMEMBERED = "rtc-agent.microphone";

const BY_ERROR_NAME = {
  NotAllowedError: "microphone_refused",
  SecurityError: "microphone_refused",
  NotFoundError: "microphone_missing",
  NotReadableError: "microphone_busy",
  AbortError: "microphone_busy",
};

export const isAvailable = () => Boolean(navigator.mediaDevices?.getUserMedia);

/**
 * The devices to choose from. Before the first permission browsers hide their names and ids, and
 * the list is empty.
 * @param {"audioinput" | "audiooutput"} kind
 * @returns {Promise<{id: string, label: string, group: string}[]>}
 */
export async function listDevices(kind) {
  if (!isAvailable()) return [];
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices
    .filter((device) => device.kind === kind && device.deviceId && device.label)
    .map(({ deviceId, label, groupId }) => ({ id: deviceId, label, group: groupId }));
}

/** @param {() => void} listener called whenever a device comes or goes */
export function onDevicesChanged(listener) {
  navigator.mediaDevices?.addEventListener("devicechange", listener);
}

/** Storage can be denied to a page; the choice is then not remembered. */
export function rememberedMicrophone() {
  try {
    return localStorage.getItem(REMEMBERED) ?? "";
  } catch {
    return "";
  }
}

export function rememberMicrophone(id) {
  try {
    localStorage.setItem(REMEMBERED, id);
  } catch (error) {
    console.info("the microphone choice is not remembered:", error.message);
  }
}

const open = (id) =>
  navigator.mediaDevices.getUserMedia({
    audio: {
      deviceId: id ? { exact: id } : undefined,
      channelCount: 1,
      echoCancellation: true,
      noiseSuppression: true,
      autoGainControl: true,
    },
  });

/**
 * Open a microphone; a chosen one that has gone gives way to the default.
 * @param {string} id device id, or "" for the default
 * @returns {Promise<MediaStream>}
 * @throws {CallProblem}
 */
export async function openMicrophone(id) {
  try {
    try {
      return await open(id);
    } catch (error) {
      if (!id || !["OverconstrainedError", "NotFoundError"].includes(error.name)) throw error;
      return await open("");
    }
  } catch (error) {
    const code = BY_ERROR_NAME[error.name] ?? "microphone_failed";
    throw new CallProblem(code, { detail: `${error.name}: ${error.message}` });
  }
}

/** @param {MediaStream | null} stream */
export function release(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
