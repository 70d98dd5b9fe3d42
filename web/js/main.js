/** The call page: ties one call to the elements that start, show and end it. */

import { Call } from "./call.js";
import { element } from "./dom.js";
import { spoken } from "./format.js";
import { Levels } from "./levels.js";
import * as microphone from "./microphone.js";
import { describePath } from "./path.js";
import { CallProblem, describeEnding } from "./problems.js";
import { Scope } from "./scope.js";
import { fetchInfo } from "./server.js";
import { chosenSetup, showSetup } from "./setup.js";
import { Sound } from "./sound.js";
import { Transcript } from "./transcript.js";
import * as view from "./view.js";

const RETRY_INFO_MS = 3_000;
const PATH_EVERY_MS = 5_000;

const scope = new Scope(element("scope"), { you: element("meter-you"), agent: element("meter-agent") });
const transcript = new Transcript(element("log"), element("log-empty"));
const sound = new Sound(element("remote"), view.showSoundBlocked);

let info = null;
/** The call in progress, or null. */
let call = null;
let retryTimer = null;

async function lookForServer() {
  try {
    info = await fetchInfo();
  } catch (problem) {
    if (call) return;
    view.showState("unreachable");
    view.showProblem(problem);
    setTimeout(lookForServer, RETRY_INFO_MS);
    return;
  }
  view.showInfo(info);
  showSetup(info);
  if (call) return;
  view.showProblem(null);
  view.showState("ready");
}

async function refreshInfo() {
  try {
    info = await fetchInfo();
    view.showInfo(info);
  } catch (problem) {
    console.info("the number of free lines is not known:", problem.code);
  }
}

function startCall() {
  if (call) return;
  clearInterval(retryTimer);
  view.showProblem(null);
  const started = new Call({
    microphone: element("microphone").value,
    requestData: chosenSetup(),
  });
  call = started;
  const levels = new Levels();
  sound.prime();
  transcript.begin(view.agentName(info?.agent));
  view.showMuted(false);
  view.showClock(null);
  view.clearFacts();
  scope.setMuted(false);
  follow(started, levels);
  void started.start();
}

/** @param {Call} started @param {Levels} levels */
function follow(started, levels) {
  let timers = [];
  started.addEventListener("state", ({ detail }) => {
    view.showState(detail.state);
    if (detail.state !== "live") return;
    view.showMuted(started.muted);
    if (timers.length) return;
    view.showFacts({ answer: `${Math.round(started.answeredInMs)} ms` });
    const tick = () => view.showClock(performance.now() - started.liveAt);
    const path = async () => {
      const words = describePath(await started.stats());
      if (words) view.showFacts({ path: words });
    };
    tick();
    void path();
    void refreshInfo();
    timers = [setInterval(tick, 250), setInterval(path, PATH_EVERY_MS)];
  });
  started.addEventListener("stream", ({ detail }) => {
    if (detail.side === "agent") sound.play(detail.stream);
    else void showMicrophones(started.microphone);
    levels.tap(detail.side, detail.stream);
  });
  started.addEventListener("message", ({ detail }) => showMessage(detail));
  started.addEventListener("rtt", ({ detail }) => view.showFacts({ rtt: `${Math.round(detail)} ms` }));
  started.addEventListener("microphone-lost", () => void replaceLostMicrophone(started));
  started.addEventListener("over", ({ detail }) => {
    timers.forEach(clearInterval);
    sound.stop();
    scope.stop();
    levels.close();
    call = null;
    showOver(started, detail);
  });
  scope.start((side) => levels.read(side));
}

function showMessage(message) {
  switch (message.type) {
    case "ready":
      if (message.voice) view.showFacts({ voice: message.voice });
      break;
    case "text":
      transcript.addText(message);
      break;
    case "speech":
      if (message.who === "caller") transcript.callerSpeech(message);
      else if (message.state === "stopped") transcript.endLine();
      break;
    case "notice":
      transcript.addNote(message.message ?? message.code, message.t_ms);
      view.announce(message.message ?? message.code);
      break;
  }
}

/** @param {Call} ended */
function showOver(ended, { problem, reason, message, byCaller }) {
  view.setStartWords(problem ? "Try again" : "Call again");
  if (problem) {
    view.showState("failed");
    view.showProblem(problem);
    if (problem.context.retryAfterS) countDown(problem.context.retryAfterS);
  } else {
    const lasted = ended.liveAt === null ? null : performance.now() - ended.liveAt;
    if (lasted === null && byCaller) {
      view.showState("ready");
      view.setStartWords("Start call");
    } else {
      const why = describeEnding(reason, message);
      view.showState("ended", `Call ended. ${why}`);
      view.showProblem(null);
      transcript.end(lasted ?? 0);
      if (lasted !== null) transcript.addNote(`${why} The call lasted ${spoken(lasted)}.`, lasted);
    }
  }
  void refreshInfo();
}

/** A full server said when to come back: the button tells, and can be pressed all the same. */
function countDown(secondsLeft) {
  const show = () => {
    view.setStartWords(secondsLeft > 0 ? `Try again in ${secondsLeft} s` : "Try again");
    if (secondsLeft <= 0) clearInterval(retryTimer);
    secondsLeft -= 1;
  };
  clearInterval(retryTimer);
  show();
  retryTimer = setInterval(show, 1_000);
}

function setMuted(muted) {
  call?.setMuted(muted);
  scope.setMuted(muted);
  view.showMuted(muted);
}

async function showMicrophones(chosen = element("microphone").value) {
  view.showMicrophones(await microphone.listMicrophones(), chosen);
}

async function chooseMicrophone() {
  const id = element("microphone").value;
  const current = call;
  try {
    await current?.changeMicrophone(id);
    microphone.rememberMicrophone(id);
    if (current) view.showProblem(null);
  } catch (problem) {
    view.showProblem(problem);
    void showMicrophones(current.microphone);
  }
}

/** @param {Call} current */
async function replaceLostMicrophone(current) {
  try {
    await current.changeMicrophone("");
    transcript.addNote("The microphone went away. The default one took its place.", elapsed(current));
  } catch (problem) {
    view.showProblem(problem);
  }
}

const elapsed = (current) => (current.liveAt === null ? 0 : performance.now() - current.liveAt);

function onKey(event) {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !call) return;
  if (event.key.toLowerCase() === "m") setMuted(!call.muted);
}

function begin() {
  element("start").addEventListener("click", startCall);
  element("hangup").addEventListener("click", () => call?.hangUp());
  element("mute").addEventListener("click", () => setMuted(!call?.muted));
  element("sound").addEventListener("click", () => sound.resume());
  element("microphone").addEventListener("change", () => void chooseMicrophone());
  document.addEventListener("keydown", onKey);
  addEventListener("pagehide", () => call?.hangUp());

  if (!window.isSecureContext || !microphone.isAvailable()) {
    view.showState("insecure");
    view.showProblem(new CallProblem(window.isSecureContext ? "unsupported" : "insecure"));
    void refreshInfo();
    return;
  }
  if (!("RTCPeerConnection" in window)) {
    view.showState("insecure");
    view.showProblem(new CallProblem("unsupported"));
    return;
  }
  microphone.onDevicesChanged(() => void showMicrophones());
  void showMicrophones(microphone.rememberedMicrophone());
  void lookForServer();
}

begin();
