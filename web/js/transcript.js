/** The conversation as a script: who, when, and what was said or how long. */

import { clock, seconds } from "./format.js";

/** A pause in the text longer than this many 80 ms frames begins a new line. */
const BURST_GAP_FRAMES = 15;
/** A long speech is broken at the end of a sentence past this many characters. */
const LONG_LINE = 240;
const SENTENCE_END = /[.!?…]["')\]]?$/;

export class Transcript {
  #log;
  #empty;
  #agentName = "Agent";
  #line = null;
  #turn = null;
  /** @type {{atMs: number, kind: "you" | "agent" | "note", who: string, said: HTMLElement}[]} */
  #rows = [];

  /** When the call went live. */
  beganAt = new Date();

  /** @param {HTMLElement} log a list inside the element that scrolls @param {HTMLElement} empty shown while there is nothing */
  constructor(log, empty) {
    this.#log = log;
    this.#empty = empty;
  }

  /** @param {string} agentName */
  begin(agentName) {
    this.#agentName = agentName;
    this.#log.replaceChildren();
    this.#rows = [];
    this.#line = null;
    this.#turn = null;
    this.#empty.hidden = false;
  }

  /** A piece of the agent's text; pieces of one burst make one line. */
  addText({ delta, frame, t_ms: atMs }) {
    if (!delta) return;
    const pieces = delta.split("\n");
    pieces.forEach((piece, index) => {
      if (index > 0) this.endLine();
      if (piece) this.#append(piece, frame, atMs);
    });
  }

  #append(piece, frame, atMs) {
    const line = this.#line;
    const paused = line && frame - line.frame > BURST_GAP_FRAMES;
    const long = line && line.text.length > LONG_LINE && SENTENCE_END.test(line.text.trimEnd());
    this.#write(() => {
      if (!line || paused || (long && /^\s/.test(piece))) {
        this.#line = { said: this.#row("agent", this.#agentName, atMs), text: "" };
      }
      this.#line.text += piece;
      this.#line.frame = frame;
      this.#line.said.textContent = this.#line.text.trimStart();
    });
  }

  /** What comes next from the agent is a new line. */
  endLine() {
    this.#line = null;
  }

  /** The caller's speech is shown by its length: nobody writes down the words. */
  callerSpeech({ state, duration_ms: durationMs, t_ms: atMs }) {
    this.#write(() => {
      if (state === "started") this.#turn ??= this.#beginTurn(atMs);
      else if (this.#turn) this.#endTurn(durationMs ?? Math.max(0, atMs - this.#turn.atMs));
    });
  }

  #beginTurn(atMs) {
    const said = this.#row("you", "You", atMs);
    said.classList.add("spoken");
    const bar = Object.assign(document.createElement("i"), { className: "length" });
    const words = Object.assign(document.createElement("span"), { textContent: "speaking" });
    said.append(bar, words);
    return { bar, words, atMs };
  }

  #endTurn(lastedMs) {
    const { bar, words } = this.#turn;
    bar.style.inlineSize = `${Math.min(60, 2 + (lastedMs / 1000) * 6).toFixed(1)}%`;
    bar.classList.add("known");
    words.textContent = `spoke for ${seconds(lastedMs)}`;
    this.#turn = null;
  }

  /** @param {string} text @param {number} atMs */
  addNote(text, atMs) {
    this.endLine();
    this.#write(() => {
      this.#row("note", "Note", atMs).textContent = text;
    });
  }

  /** The call is over: nobody is speaking any more. */
  end(atMs) {
    this.endLine();
    this.callerSpeech({ state: "stopped", t_ms: atMs });
  }

  get isEmpty() {
    return this.#rows.length === 0;
  }

  /** @returns {string} one line for each row */
  asText() {
    const head = `Call with ${this.#agentName}, ${this.beganAt.toLocaleString()}`;
    return [head, "", ...this.#rows.map(({ atMs, who, said }) => `${clock(atMs)}  ${who}: ${said.textContent}`)].join("\n");
  }

  /** @returns {object} for a program */
  asJson() {
    const lines = this.#rows.map(({ atMs, kind, who, said }) => {
      return { t_ms: Math.round(atMs), kind, who, text: said.textContent };
    });
    return { agent: this.#agentName, began: this.beganAt.toISOString(), lines };
  }

  #row(kind, who, atMs) {
    const row = document.createElement("li");
    row.className = `row ${kind}`;
    const time = Object.assign(document.createElement("time"), { textContent: clock(atMs ?? 0) });
    const name = Object.assign(document.createElement("span"), { className: "who", textContent: who });
    const said = Object.assign(document.createElement("p"), { className: "said" });
    row.append(time, name, said);
    this.#empty.hidden = true;
    this.#log.append(row);
    this.#rows.push({ atMs: atMs ?? 0, kind, who, said });
    return said;
  }

  /** Keep the newest in view, unless the reader has gone back. */
  #write(change) {
    const view = this.#log.parentElement;
    const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 48;
    change();
    if (atEnd) view.scrollTop = view.scrollHeight;
  }
}
