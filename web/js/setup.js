/** What the caller chooses before the call, as far as this agent has a choice to give. */

import { element } from "./dom.js";

/** @param {object} info of `/v1/info` */
export function showSetup(info) {
  const voices = info.voices ?? [];
  const select = element("voice");
  select.replaceChildren(...voices.map((voice) => new Option(voice, voice)));
  if (info.default_voice) select.value = info.default_voice;
  element("voice-field").hidden = voices.length === 0;
  element("persona-field").hidden = !info.takes_persona;
  if (info.takes_persona && info.persona_max_chars) {
    element("persona").maxLength = info.persona_max_chars;
    element("persona").addEventListener("input", () => countPersona(info.persona_max_chars));
    countPersona(info.persona_max_chars);
  }
}

function countPersona(limit) {
  const left = limit - element("persona").value.length;
  element("persona-count").textContent = `${left} of ${limit} characters left`;
}

/** @returns {{voice?: string, persona?: string}} only what this agent takes */
export function chosenSetup() {
  const chosen = {};
  if (!element("voice-field").hidden) chosen.voice = element("voice").value;
  const persona = element("persona").value.trim();
  if (!element("persona-field").hidden && persona) chosen.persona = persona;
  return chosen;
}
