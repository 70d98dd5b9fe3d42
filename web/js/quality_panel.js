/** The quality panel: each figure with its value now and its line over the whole call. */

import { element } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 20;
/** Points of a line; past that, two neighbours become one, and the whole call stays in sight. */
const POINTS = 240;

const ms = (value) => `${Math.round(value)} ms`;
const percent = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;

/** `full` is the least value that a line's whole height stands for. */
const FIGURES = [
  { name: "mouthToEarMs", label: "Mouth to ear", words: ms, full: 500, hint: "from your word to the earliest answer at your ear, estimated" },
  { name: "rttMs", label: "Round trip", words: ms, full: 100, hint: "to the server and back" },
  { name: "lossPercent", label: "Lost", words: percent, full: 5, hint: "packets that did not arrive, the worse way" },
  { name: "jitterMs", label: "Jitter", words: ms, full: 30, hint: "how unevenly packets arrive" },
  { name: "concealedPercent", label: "Filled in", words: percent, full: 5, hint: "sound that was missing and had to be made up" },
  { name: "browserMs", label: "Browser buffer", words: ms, full: 150, hint: "how long this browser holds sound back" },
  { name: "serverMs", label: "Server buffers", words: ms, full: 150, hint: "how long the server holds sound back, both ways" },
];

/** A line that keeps the whole call in a bounded number of points. */
export class History {
  #points = [];
  #each = 1;
  #pending = [];

  get points() {
    return this.#points;
  }

  /** @param {number} value */
  add(value) {
    this.#pending.push(value);
    if (this.#pending.length < this.#each) return;
    this.#points.push(Math.max(...this.#pending));
    this.#pending = [];
    if (this.#points.length < POINTS) return;
    const pairs = [];
    for (let at = 0; at < POINTS; at += 2) pairs.push(Math.max(this.#points[at], this.#points[at + 1]));
    this.#points = pairs;
    this.#each *= 2;
  }
}

export class QualityPanel {
  #rows;

  constructor() {
    this.#rows = FIGURES.map((figure) => ({ ...figure, ...makeRow(figure) }));
    element("quality-figures").replaceChildren(...this.#rows.map(({ row }) => row));
    this.clear();
  }

  clear() {
    for (const row of this.#rows) {
      row.history = new History();
      row.value.textContent = "–";
      row.line.setAttribute("points", "");
    }
    element("quality-sum").textContent = "";
  }

  /** @param {import("./quality.js").Figures} figures @param {boolean} isGood */
  show(figures, isGood) {
    for (const { name, words, full, history, value, line } of this.#rows) {
      const now = figures[name];
      if (now === null) continue;
      history.add(now);
      value.textContent = words(now);
      line.setAttribute("points", pointsOf(history.points, full));
    }
    element("quality-sum").textContent = isGood ? "good" : "needs attention";
  }
}

function makeRow({ label, hint }) {
  const row = element("figure-row").content.firstElementChild.cloneNode(true);
  const name = row.querySelector("dt");
  name.textContent = label;
  name.title = hint;
  row.querySelector("svg").setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  return { row, value: row.querySelector("span"), line: row.querySelector("polyline") };
}

function pointsOf(points, full) {
  const top = Math.max(full, ...points);
  const step = WIDTH / Math.max(1, points.length - 1);
  return points
    .map((value, at) => `${(at * step).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1)}`)
    .join(" ");
}

/** @param {{title: string, text: string}[]} advice the most pressing first */
export function showAdvice(advice) {
  const list = element("advice-list");
  const rows = advice.slice(0, 2).map(({ title, text }) => {
    const row = document.createElement("li");
    row.append(Object.assign(document.createElement("strong"), { textContent: title }), ` ${text}`);
    return row;
  });
  const words = rows.map((row) => row.textContent).join("\n");
  // A screen reader reads what changes: the same words again would be read again.
  if (words !== [...list.children].map((row) => row.textContent).join("\n")) list.replaceChildren(...rows);
  element("advice").hidden = rows.length === 0;
}
