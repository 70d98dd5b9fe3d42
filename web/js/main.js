/** The call page: ties one call to the elements that start, show and end it. */

import { Call } from "./call.js";
import { Captions } from "./captions.js";
import { chooseSpeaker, showDevices } from "./devices.js";
import { element } from "./dom.js";
import { spoken } from "./format.js";
import { Keep } from "./keep.js";
import { Levels } from "./levels.js";
import { Listen } from "./listen.js";
import { Measure } from "./measure.js";
import * as microphone from "./microphone.js";
import { listenForMute } from "./mute.js";
import { CallProblem, describeEnding } from "./problems.js";
import { QualityPanel } from "./quality_panel.js";
import { Scope } from "./scope.js";
import { fetchInfo } from "./server.js";
import { captionsAtOnce, chosenSetup, copyLink, showSetup } from "./setup.js";
import { Sound } from "./sound.js";
import { Taps } from "./taps.js";
import { Transcript } from "./transcript.js";
import * as view from "./view.js";

const RETRY_INFO_MS = 3_000;
/** The line of a call that is over is free by then. */
const REFRESH_INFO_MS = 3_000;

const scope = new Scope(element("scope"), { you: element("meter-you"), agent: element("meter-agent") });
const transcript = new Transcript(element("log"), element("log-empty"), element("log-earlier"));
const sound = new Sound(element("remote"), view.showSoundBlocked);
const captions = new Captions(showMessage);
const keep = new Keep(transcript);
const panel = new QualityPanel();
const listen = new Listen();

let info = null;
/** The call in progress, or null. */
let call = null;
/** @type {Measure | null} of that call */
let measure = null;
let retryTimer = null;
let infoTimer = null;

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
  listen.offer(info.voice_samples);
  captions.atOnce = captionsAtOnce();
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

/** Lines come and go by what others do, of which nothing tells the page. */
function keepInfoFresh() {
  clearInterval(infoTimer);
  infoTimer = setInterval(() => {
    if (info && (call || !document.hidden)) void refreshInfo();
  }, REFRESH_INFO_MS);
}

/** Whether the server has other calls than this page's own, as far as is known. */
const hasOthers = () => Boolean(info?.slots) && info.slots.total - info.slots.free > 1;

function startCall() {
  if (call) return;
  clearInterval(retryTimer);
  view.showProblem(null);
  listen.stop();
  const started = new Call({
    microphone: element("microphone").value,
    requestData: chosenSetup(),
  });
  call = started;
  const taps = new Taps();
  const levels = new Levels(taps);
  measure = new Measure(started, taps, panel, (ms) => (captions.soundLagMs = ms), hasOthers);
  captions.soundLagMs = null;
  sound.prime();
  transcript.begin(view.agentName(info?.agent));
  view.showMuted(false);
  view.showRecorded(false);
  view.showClock(null);
  view.clearFacts();
  scope.setMuted(false);
  follow(started, taps, measure);
  void started.start();
  scope.start((side) => levels.read(side));
}

/** @param {Call} started @param {Taps} taps @param {Measure} measured */
function follow(started, taps, measured) {
  let timer = null;
  started.addEventListener("state", ({ detail }) => {
    view.showState(detail.state, view.tryInWords(detail));
    if (detail.state !== "live") return;
    view.showMuted(started.muted);
    if (timer !== null) return;
    const tick = () => view.showClock(started.elapsedMs);
    timer = setInterval(tick, 250);
    tick();
    view.showFacts({ answer: `${Math.round(started.answeredInMs)} ms` });
    keep.begin(taps);
    measured.begin();
  });
  started.addEventListener("stream", ({ detail }) => {
    if (detail.side === "agent") sound.play(detail.stream);
    else void showDevices(started.microphone.deviceId ?? "");
    taps.tap(detail.side, detail.stream);
  });
  started.addEventListener("message", ({ detail }) => {
    if (detail.type === "ready") showMessage(detail);
    else if (detail.type === "stats") measured.fromServer(detail);
    else captions.add(detail);
  });
  started.addEventListener("rtt", ({ detail }) => measured.rtt(detail));
  started.addEventListener("resumed", ({ detail }) => showResumed(started, detail.anew));
  started.addEventListener("microphone-lost", () => void replaceLostMicrophone(started));
  started.addEventListener("over", ({ detail }) => {
    clearInterval(timer);
    captions.flush();
    sound.stop();
    scope.stop();
    measured.end();
    keep.end();
    view.showRecorded(false);
    taps.close();
    call = measure = null;
    showOver(started, detail);
  });
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
      showNotice(message);
      break;
  }
}

function showNotice({ code, message, frames, t_ms: atMs }) {
  if (code === "recording") view.showRecorded(true);
  if (code === "overload" && frames) {
    const words = transcript.addLeftOut(frames, atMs);
    if (words) view.announce(words);
    return;
  }
  transcript.addNote(message ?? code, atMs);
  view.announce(message ?? code);
}

/** @param {Call} resumed @param {boolean} anew */
function showResumed(resumed, anew) {
  const words = anew
    ? "The connection is back. The server had let the conversation go, so a new one begins."
    : "The connection is back, and the conversation goes on.";
  if (anew) transcript.endLine();
  transcript.addNote(words, resumed.elapsedMs);
  view.announce(words);
}

/** @param {Call} ended */
function showOver(ended, { problem, reason, message, byCaller }) {
  view.setStartWords(problem ? "Try again" : "Call again");
  if (problem) {
    view.showState("failed");
    view.showProblem(problem);
    if (problem.context.retryAfterS) countDown(problem.context.retryAfterS);
  } else {
    const lasted = ended.liveAt === null ? null : ended.elapsedMs;
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
  if (problem) void refreshInfo();
  keepInfoFresh();
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

async function chooseMicrophone() {
  const id = element("microphone").value;
  const current = call;
  try {
    await current?.changeMicrophone(id);
    microphone.rememberMicrophone(id);
    if (current) view.showProblem(null);
    void measure?.lookAtDevices();
  } catch (problem) {
    view.showProblem(problem);
    void showDevices(current.microphone.deviceId ?? "");
  }
}

/** @param {Call} current */
async function replaceLostMicrophone(current) {
  try {
    await current.changeMicrophone("");
    transcript.addNote("The microphone went away. The default one took its place.", current.elapsedMs);
  } catch (problem) {
    view.showProblem(problem);
  }
}

function begin() {
  element("start").addEventListener("click", startCall);
  element("hangup").addEventListener("click", () => call?.hangUp());
  listenForMute(() => call, setMuted);
  element("sound").addEventListener("click", () => sound.resume());
  element("microphone").addEventListener("change", () => void chooseMicrophone());
  element("speaker").addEventListener("change", async () => {
    await chooseSpeaker(element("remote"));
    void measure?.lookAtDevices();
  });
  element("captions-timed").addEventListener("change", () => (captions.atOnce = captionsAtOnce()));
  element("share").addEventListener("click", () => void copyLink());
  element("latency-test").addEventListener("click", () => void measure?.testLatency(info?.agent === "echo"));
  addEventListener("pagehide", () => call?.leave());

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
  microphone.onDevicesChanged(() => void showDevices());
  void showDevices(microphone.rememberedMicrophone());
  void lookForServer();
  keepInfoFresh();
}

begin();
