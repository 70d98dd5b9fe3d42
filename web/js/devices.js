/** Microphone and loudspeaker: which there are, changing them within a call, and whether they fit. */

import { element } from "./dom.js";
import * as microphone from "./microphone.js";

const canChooseSpeaker = "setSinkId" in HTMLMediaElement.prototype;

/** @param {string} [chosen] device id of the microphone */
export async function showDevices(chosen = element("microphone").value) {
  fill(element("microphone"), await microphone.listDevices("audioinput"), chosen, "microphone");
  const speakers = canChooseSpeaker ? await microphone.listDevices("audiooutput") : [];
  element("speaker-field").hidden = speakers.length < 2;
  fill(element("speaker"), speakers, element("speaker").value, "loudspeaker");
}

/** @param {{id: string, label: string}[]} devices @param {string} chosen */
function fill(select, devices, chosen, noun) {
  const options = devices.map(({ id, label }) => new Option(label, id));
  if (!devices.some(({ id }) => id === "default")) options.unshift(new Option(`Default ${noun}`, ""));
  // Names and ids are hidden until the browser has asked; what was chosen last time still works.
  if (devices.length === 0 && chosen) options.push(new Option(`Last used ${noun}`, chosen));
  select.replaceChildren(...options);
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

/** @param {HTMLAudioElement} audio that plays the agent */
export async function chooseSpeaker(audio) {
  try {
    await audio.setSinkId(element("speaker").value);
  } catch (error) {
    console.warn("the loudspeaker stays as it was:", error.message);
    element("speaker").value = audio.sinkId;
  }
}

const MIXED_WORDS =
  "These are different devices: echo is removed less well then. Choose both of one device, or wear headphones.";

/**
 * Whether microphone and loudspeaker belong to different devices: an echo canceller that does not
 * know both clocks does its work badly.
 * @param {MediaTrackSettings} used by the microphone @returns {Promise<boolean>}
 */
async function areMixed(used) {
  const [inputs, outputs] = [
    await microphone.listDevices("audioinput"),
    await microphone.listDevices("audiooutput"),
  ];
  const input = inputs.find(({ id }) => id === used.deviceId);
  const output = outputs.find(({ id }) => id === (element("speaker").value || "default"));
  // Browsers that do not name the loudspeaker leave nothing to compare.
  if (!input?.group || !output?.group) return false;
  // Where nothing is grouped, Chromium's sound system does not say what belongs together.
  const isGrouped = inputs.some(({ group }) => outputs.some((other) => other.group === group));
  if (!isGrouped) return false;
  return input.group !== output.group && !isHeadset(output.label);
}

/** With closed ears there is no echo, whatever the microphone is. */
const isHeadset = (label) => /head(set|phone)|earphone|ear ?buds?|airpods/i.test(label);

/** @param {MediaTrackSettings} used by the microphone, {} outside a call */
export async function showMixed(used) {
  element("mixed").textContent = (await areMixed(used)) ? MIXED_WORDS : "";
}
