/** The conversation as a script: who, when, and what was said or how long. */

import { clock, seconds } from "./format.js";

/** A pause in the text longer than this many 80 ms frames begins a new line. */
const BURST_GAP_FRAMES = 15;
/** A long speech is broken at the end of a sentence past this many characters. */
const LONG_LINE = 240;

export class Transcript {
  #log;
  #empty;
  #agentName = "Agent";
  #line = null;
  #turn = null;

  /** @param {HTMLElement} log @param {HTMLElement} empty shown while there is nothing */
  constructor(log, empty) {
    this.#log = log;
    this.#empty = empty;
  }

  /** @param {string} agentName */
  begin(agentName) {
    this.#agentName = agentName;
    this.#log.replaceChildren();
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
    const long = line && line.text.length > LONG_LINE && /[.!?…]["')\]]?$/.test(line.text.trimEnd());
    if (!line || paused || (long && /^\s/.test(piece))) {
      const said = this.#row("agent", this.#agentName, atMs);
      this.#line = { said, text: "", frame };
    }
    this.#line.text += piece;
    this.#line.frame = frame;
    this.#line.said.textContent = this.#line.text.trimStart();
    this.#follow();
  }

  /** What comes next from the agent is a new line. */
  endLine() {
    this.#line = null;
  }

  /** The caller's speech is shown by its length: nobody writes down the words. */
  callerSpeech({ state, duration_ms: durationMs, t_ms: atMs }) {
    if (state === "started") {
      const said = this.#row("you", "You", atMs);
      said.classList.add("spoken");
      said.append(Object.assign(document.createElement("i"), { className: "length" }));
      said.append(Object.assign(document.createElement("span"), { textContent: "speaking" }));
      this.#turn = { said, atMs };
      return;
    }
    if (!this.#turn) return;
    const lasted = durationMs ?? Math.max(0, atMs - this.#turn.atMs);
    const [bar, words] = this.#turn.said.children;
    bar.style.inlineSize = `${Math.min(60, 2 + (lasted / 1000) * 6).toFixed(1)}%`;
    bar.classList.add("known");
    words.textContent = `spoke for ${seconds(lasted)}`;
    this.#turn = null;
  }

  /** @param {string} text @param {number} atMs */
  addNote(text, atMs) {
    this.endLine();
    this.#row("note", "Note", atMs).textContent = text;
    this.#follow();
  }

  /** The call is over: nobody is speaking any more. */
  end(atMs) {
    this.endLine();
    if (this.#turn) this.callerSpeech({ state: "stopped", t_ms: atMs });
  }

  #row(kind, who, atMs) {
    const row = document.createElement("li");
    row.className = `row ${kind}`;
    const time = Object.assign(document.createElement("time"), { textContent: clock(atMs ?? 0) });
    const name = Object.assign(document.createElement("span"), { className: "who", textContent: who });
    const said = Object.assign(document.createElement("p"), { className: "said" });
    row.append(time, name, said);
    this.#empty.hidden = true;
    const atEnd = this.#isAtEnd();
    this.#log.append(row);
    if (atEnd) this.#follow(true);
    return said;
  }

  #isAtEnd() {
    return this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < 48;
  }

  /** Keep the newest in view, unless the reader has gone back. */
  #follow(force = this.#isAtEnd()) {
    if (force) this.#log.scrollTop = this.#log.scrollHeight;
  }
}
