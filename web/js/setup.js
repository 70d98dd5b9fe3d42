/** What the caller chooses before the call, as far as this agent has a choice to give. */

import { element } from "./dom.js";
import { linkOfSettings, settingsOfLink } from "./link.js";
import { PERSONAS } from "./personas.js";

const COPIED_MS = 4_000;
const SHOWN_NAMES = 6;

/** 0: no limit is known. */
let limit = 0;

/** @param {object} info of `/v1/info` */
export function showSetup(info) {
  const wanted = settingsOfLink();
  const voices = info.voices ?? [];
  const select = element("voice");
  select.replaceChildren(...voices.map((voice) => new Option(voice, voice)));
  const voice = voices.includes(wanted.voice) ? wanted.voice : info.default_voice;
  if (voice) select.value = voice;
  element("voice-field").hidden = voices.length === 0;
  const hasPersona = info.takes_persona && info.follows_persona !== false;
  element("persona-field").hidden = !hasPersona;
  const records = Boolean(info.capabilities?.recording);
  element("choices").hidden = voices.length === 0 && !hasPersona && !records;
  if (hasPersona) showPersona(info.persona_max_chars ?? 0, wanted.persona, info.persona_names ?? []);
  showConsent(records, info.recording_days);
  if (wanted.captions) element("captions-timed").checked = wanted.captions !== "at-once";
}

/** @param {boolean} records the server records calls of those who agree @param {number | null | undefined} days */
function showConsent(records, days) {
  element("consent-field").hidden = !records;
  if (!records) element("consent").checked = false;
  const until = days ? `It is deleted after ${days} ${days === 1 ? "day" : "days"}.` : "It is kept until somebody deletes it.";
  element("consent-words").textContent = `Both voices, and what the agent says in writing. ${until}`;
}

/** @param {string[]} names of an agent that takes nothing but its name from a persona */
function showPersona(maxChars, wanted, names) {
  limit = maxChars;
  element("persona-names").hidden = names.length === 0;
  element("persona-names").textContent =
    `This agent takes its name from the persona and nothing else of it. It goes by ${names.join(", ")}.`;
  const field = element("persona");
  if (names.length) field.placeholder = calledBy(names[0]).text;
  if (wanted && !field.value) field.value = limit ? wanted.slice(0, limit) : wanted;
  const examples = names.length ? names.slice(0, SHOWN_NAMES).map(calledBy) : PERSONAS;
  const fitting = examples.filter(({ text }) => !limit || text.length <= limit);
  element("personas").replaceChildren(...fitting.map(exampleButton));
  element("personas").hidden = fitting.length === 0;
  field.addEventListener("input", countPersona);
  countPersona();
}

const calledBy = (name) => ({ name, text: `Your name is ${name}.` });

function exampleButton({ name, text }) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "chip", textContent: name });
  button.setAttribute("aria-pressed", "false");
  button.dataset.text = text;
  button.addEventListener("click", () => {
    element("persona").value = text;
    countPersona();
  });
  return button;
}

/** More than the limit can be pasted, is counted, and is told before the server refuses it. */
function countPersona() {
  const text = element("persona").value;
  for (const chip of element("personas").children) {
    chip.setAttribute("aria-pressed", String(chip.dataset.text === text));
  }
  if (!limit) return;
  const left = limit - text.length;
  element("persona-count").textContent =
    left >= 0 ? `${left} of about ${limit} characters left` : `${-left} characters too many; about ${limit} fit`;
  element("persona").setAttribute("aria-invalid", String(left < 0));
}

/** @param {boolean} locked a call is in progress: what its agent is cannot be changed */
export function lockSetup(locked) {
  element("choices").disabled = locked;
  element("setup-title").textContent = headingOf(locked);
  element("setup-locked").hidden = !locked || element("choices").hidden;
}

function headingOf(locked) {
  if (!locked) return "Before you call";
  return element("choices").hidden ? "Settings" : "Chosen for this call";
}

/** @returns {{voice?: string, persona?: string, recording_consent?: boolean}} only what this server takes */
export function chosenSetup() {
  const chosen = {};
  if (!element("voice-field").hidden) chosen.voice = element("voice").value;
  const persona = element("persona").value.trim();
  if (!element("persona-field").hidden && persona) chosen.persona = persona;
  if (element("consent").checked) chosen.recording_consent = true;
  return chosen;
}

export const captionsAtOnce = () => !element("captions-timed").checked;

/** Copy a link that opens the page with what is chosen now. */
export async function copyLink() {
  const link = linkOfSettings({ ...chosenSetup(), captions: captionsAtOnce() ? "at-once" : "" });
  const say = (words) => (element("share-result").textContent = words);
  try {
    await navigator.clipboard.writeText(link);
    say("Copied. It holds what you chose here, and no key.");
    setTimeout(() => say(""), COPIED_MS);
  } catch {
    // Without leave to use the clipboard, the address bar is where a person can copy it from.
    history.replaceState(null, "", link);
    say("The browser did not allow copying. The link is in the address bar now.");
  }
}
