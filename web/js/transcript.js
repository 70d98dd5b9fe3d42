/** The conversation as a script: who, when, and what was said or how long. */

import { clock, seconds } from "./format.js";

/** A pause in the text longer than this many 80 ms frames begins a new line. */
const BURST_GAP_FRAMES = 15;
/** A long speech is broken at the end of a sentence past this many characters. */
const LONG_LINE = 240;
const SENTENCE_END = /[.!?…]["')\]]?$/;
/** Past this one is broken wherever it is. */
const LONGEST_LINE = 1_000;
/** What was left out within this time of the last such note is added to it. */
const TOGETHER_MS = 10_000;
const FRAME_MS = 80;
/** What a line takes beside its text, in characters. */
const LINE_COST = 50;
const BOUNDS = {
  /** Lines on the page. */
  shown: 300,
  /** Characters kept for saving: a day of talk without a pause. */
  kept: 2_000_000,
};

/** @typedef {{atMs: number, kind: "you" | "agent" | "note", who: string, text: string}} Line */

export class Transcript {
  #log;
  #empty;
  #earlier;
  #bounds;
  #agentName = "Agent";
  /** What the agent is saying. @type {{row: Line, said: HTMLElement, frame: number} | null} */
  #line = null;
  #turn = null;
  /** What a slow server left out lately. @type {{row: Line, said: HTMLElement, ms: number, atMs: number} | null} */
  #leftOut = null;
  /** @type {Line[]} */
  #rows = [];
  #size = 0;
  #left = 0;

  /** When the call went live. */
  beganAt = new Date();

  /**
   * @param {HTMLElement} log a list inside the element that scrolls
   * @param {HTMLElement} empty shown while there is nothing
   * @param {HTMLElement} earlier says how many lines are on the page no more
   * @param {{shown: number, kept: number}} [bounds]
   */
  constructor(log, empty, earlier, bounds = BOUNDS) {
    this.#log = log;
    this.#empty = empty;
    this.#earlier = earlier;
    this.#bounds = bounds;
  }

  /** @param {string} agentName */
  begin(agentName) {
    this.#agentName = agentName;
    this.#log.replaceChildren();
    this.#rows = [];
    this.#size = this.#left = 0;
    this.#line = null;
    this.#turn = this.#leftOut = null;
    this.#empty.hidden = false;
    this.#earlier.hidden = true;
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
    const said = line?.row.text ?? "";
    const paused = line && frame - line.frame > BURST_GAP_FRAMES;
    const long = said.length > LONG_LINE && SENTENCE_END.test(said.trimEnd()) && /^\s/.test(piece);
    this.#write(() => {
      if (!line || paused || long || said.length > LONGEST_LINE) {
        this.#line = this.#row("agent", this.#agentName, atMs);
      }
      this.#line.frame = frame;
      const { row, said: place } = this.#line;
      this.#say(row, (row.text + piece).trimStart());
      place.textContent = row.text;
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
    const { row, said } = this.#row("you", "You", atMs);
    this.#say(row, "speaking");
    said.classList.add("spoken");
    const bar = Object.assign(document.createElement("i"), { className: "length" });
    const words = Object.assign(document.createElement("span"), { textContent: row.text });
    said.append(bar, words);
    return { row, bar, words, atMs };
  }

  #endTurn(lastedMs) {
    const { row, bar, words } = this.#turn;
    this.#say(row, `spoke for ${seconds(lastedMs)}`);
    bar.style.inlineSize = `${Math.min(60, 2 + (lastedMs / 1000) * 6).toFixed(1)}%`;
    bar.classList.add("known");
    words.textContent = row.text;
    this.#turn = null;
  }

  /**
   * Stands after the line that is being spoken, which goes on before it.
   * @param {string} text @param {number} atMs
   */
  addNote(text, atMs) {
    this.#write(() => this.#note(text, atMs));
  }

  #note(text, atMs) {
    const made = this.#row("note", "Note", atMs);
    this.#say(made.row, text);
    made.said.textContent = text;
    return made;
  }

  /**
   * A slow server leaves out little pieces in quick succession: they are one note that grows.
   * @param {number} frames @param {number} atMs @returns {string | null} its words, if it is a new one
   */
  addLeftOut(frames, atMs) {
    // Frames count on while nothing is heard of them: that is no pause of the agent's.
    if (this.#line) this.#line.frame += frames;
    const goesOn = this.#leftOut !== null && atMs - this.#leftOut.atMs < TOGETHER_MS;
    const ms = (goesOn ? this.#leftOut.ms : 0) + frames * FRAME_MS;
    const text = `The server is too slow at the moment: ${ms < 1_000 ? `${ms} ms` : seconds(ms)} of the call were left out.`;
    if (goesOn) {
      Object.assign(this.#leftOut, { ms, atMs });
      this.#say(this.#leftOut.row, text);
      this.#leftOut.said.textContent = text;
      return null;
    }
    this.#write(() => (this.#leftOut = { ...this.#note(text, atMs), ms, atMs }));
    return text;
  }

  /** The call is over: nobody is speaking any more. */
  end(atMs) {
    this.endLine();
    this.callerSpeech({ state: "stopped", t_ms: atMs });
  }

  /** @returns {string} one line for each row */
  asText() {
    const head = [`Call with ${this.#agentName}, ${this.beganAt.toLocaleString()}`, ""];
    if (this.#left) head.push(`(${this.#left} earlier lines were too many to keep.)`);
    return [...head, ...this.#rows.map(({ atMs, who, text }) => `${clock(atMs)}  ${who}: ${text}`)].join("\n");
  }

  /** @returns {object} for a program */
  asJson() {
    const lines = this.#rows.map(({ atMs, kind, who, text }) => ({ t_ms: Math.round(atMs), kind, who, text }));
    return { agent: this.#agentName, began: this.beganAt.toISOString(), lines_left_out: this.#left, lines };
  }

  /** @returns {{row: Line, said: HTMLElement}} the line, and where its text goes on the page */
  #row(kind, who, atMs = 0) {
    const row = document.createElement("li");
    row.className = `row ${kind}`;
    const time = Object.assign(document.createElement("time"), { textContent: clock(atMs) });
    const name = Object.assign(document.createElement("span"), { className: "who", textContent: who });
    const said = Object.assign(document.createElement("p"), { className: "said" });
    row.append(time, name, said);
    this.#empty.hidden = true;
    this.#log.append(row);
    const made = { atMs, kind, who, text: "" };
    this.#rows.push(made);
    this.#size += LINE_COST;
    this.#showNewest();
    return { row: made, said };
  }

  /** @param {Line} row @param {string} text takes the place of what it said so far */
  #say(row, text) {
    this.#size += text.length - row.text.length;
    row.text = text;
    while (this.#size > this.#bounds.kept && this.#rows.length > 1) {
      this.#size -= LINE_COST + this.#rows.shift().text.length;
      this.#left += 1;
    }
  }

  /** The page shows the newest lines; those before them are kept for saving. */
  #showNewest() {
    while (this.#log.childElementCount > this.#bounds.shown) this.#log.firstElementChild.remove();
    const before = this.#rows.length - this.#log.childElementCount;
    this.#earlier.hidden = before <= 0;
    if (before > 0) this.#earlier.textContent = `${before} earlier ${before === 1 ? "line is" : "lines are"} in what Save gives.`;
  }

  /** Keep the newest in view, unless the reader has gone back. */
  #write(change) {
    const view = this.#log.parentElement;
    const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 48;
    change();
    if (atEnd) view.scrollTop = view.scrollHeight;
  }
}
