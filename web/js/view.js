/** The page's words and switches for each state. Knows elements, not connections. */

import { element } from "./dom.js";
import { clock } from "./format.js";
import { describeProblem } from "./problems.js";
import { lockSetup } from "./setup.js";

const IN_CALL = new Set(["requesting", "connecting", "opening", "live", "interrupted"]);
const TALKING = new Set(["live", "interrupted"]);

const STATE_WORDS = {
  loading: "Looking for the server",
  ready: "Ready to call",
  insecure: "Cannot call from here",
  unreachable: "Server not reached",
  requesting: "Allow the microphone when the browser asks",
  connecting: "Connecting",
  opening: "Connected, the agent is getting ready",
  live: "Live",
  interrupted: "The connection was lost. Trying to take the call up again",
  failed: "The call did not start",
};

/** @param {string} state @param {string} [words] instead of the usual ones */
export function showState(state, words) {
  document.body.dataset.state = state;
  const busy = IN_CALL.has(state);
  element("state").textContent = words ?? STATE_WORDS[state];
  swap("start", "hangup", busy);
  element("hangup").querySelector("span").textContent = TALKING.has(state) ? "Hang up" : "Cancel";
  element("start").disabled = state === "loading" || state === "insecure";
  element("mute").hidden = !busy;
  // The one line may be the caller's own, who would read of it as of a fault.
  element("lines").hidden = busy;
  lockSetup(busy);
  element("latency-test").disabled = state !== "live";
  document.title = TALKING.has(state) ? "In a call · rtc-agent" : "rtc-agent";
}

/** @param {{state: string, attempt: number}} at @returns {string | undefined} words for a second try */
export const tryInWords = ({ state, attempt }) =>
  state === "interrupted" && attempt > 1 ? `${STATE_WORDS.interrupted}, try ${attempt} of 3` : undefined;

/** Start and hang up take each other's place, and the focus with it. */
function swap(idle, busy, isBusy) {
  const [shown, gone] = isBusy ? [element(busy), element(idle)] : [element(idle), element(busy)];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus();
}

export function setStartWords(words) {
  element("start").querySelector("span").textContent = words;
}

/** @param {import("./problems.js").CallProblem | null} problem */
export function showProblem(problem) {
  const box = element("problem");
  box.hidden = problem === null;
  if (problem === null) {
    delete document.body.dataset.problem;
    return;
  }
  const { title, text, steps, detail } = describeProblem(problem);
  document.body.dataset.problem = problem.code;
  element("problem-title").textContent = title;
  element("problem-text").textContent = text;
  element("problem-steps").replaceChildren(
    ...steps.map((step) => Object.assign(document.createElement("li"), { textContent: step })),
  );
  element("problem-detail").hidden = !detail;
  element("problem-detail").textContent = detail ?? "";
}

/** @param {object} info of `/v1/info` */
export function showInfo(info) {
  const name = agentName(info.agent);
  write("headline", name);
  element("meter-agent").setAttribute("aria-label", `${name} level`);
  write("lede", [info.description, info.notice].filter(Boolean).join(" "));
  write("version", info.version ? `rtc-agent ${info.version}` : "");
  showLines(info.slots);
}

const AGENT_NAMES = { personaplex: "PersonaPlex" };

/** @param {string | undefined} agent as `/v1/info` names it @returns {string} for people */
export function agentName(agent) {
  if (!agent) return "Agent";
  return AGENT_NAMES[agent] ?? agent[0].toUpperCase() + agent.slice(1);
}

function showLines(slots) {
  if (!slots || IN_CALL.has(document.body.dataset.state)) return;
  const { free, total } = slots;
  const noun = total === 1 ? "line" : "lines";
  write("lines", free ? `${free} of ${total} ${noun} free` : "All lines busy");
}

/** What says so already is left alone, with what a reader has marked in it. */
function write(name, words) {
  if (element(name).textContent !== words) element(name).textContent = words;
}

export function showMuted(muted) {
  element("mute").setAttribute("aria-pressed", String(muted));
  element("mute").querySelector("span").textContent = muted ? "Unmute" : "Mute";
  element("lane-you").textContent = muted ? "Muted" : "You";
  document.body.toggleAttribute("data-muted", muted);
  if (document.body.dataset.state === "live") {
    element("state").textContent = muted ? "Live, you are muted" : "Live";
  }
}

/** @param {boolean} recorded by the server, which said so */
export function showRecorded(recorded) {
  element("recorded").hidden = !recorded;
}

/** @param {number | null} ms since the call went live, or null for no call */
export function showClock(ms) {
  element("clock").hidden = ms === null;
  if (ms !== null) element("clock").textContent = clock(ms);
}

export function showSoundBlocked(blocked) {
  element("sound").hidden = !blocked;
}

/** What was measured belongs to one call. */
export function clearFacts() {
  element("facts").hidden = true;
  element("latency-result").textContent = "";
  for (const value of element("facts").querySelectorAll("dd")) value.textContent = "";
}

/** @param {Partial<Record<"path" | "rtt" | "answer" | "voice", string>>} facts those now known */
export function showFacts(facts) {
  element("facts").hidden = false;
  for (const [name, value] of Object.entries(facts)) element(`fact-${name}`).textContent = value;
}

/** Say something to a screen reader that the eye finds elsewhere. @param {string} words */
export function announce(words) {
  element("announcement").textContent = words;
}
