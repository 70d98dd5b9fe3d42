/**
 * The line: what both sides said in the last seconds, the caller above it, the agent below.
 * One bar is 80 ms, the loudest moment of one engine frame.
 */

import { FLOOR_DB, loudness, loudnessInWords } from "./levels.js";

const BAR_MS = 80;
const HISTORY = 512;
/** Bars that a busy machine may be late by. */
const SLOW_BARS = 6;
const ARIA_EVERY_MS = 500;
/** Between the middle and the foot of a bar, in CSS pixels. */
const GAP = 5;
const SIDES = ["you", "agent"];

export class Scope {
  #canvas;
  #meters;
  #read;
  #bars = [];
  #barStartedAt = 0;
  #peak = { you: FLOOR_DB, agent: FLOOR_DB };
  #muted = false;
  #running = false;
  #ariaAt = 0;
  #colours = {};
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{you: HTMLElement, agent: HTMLElement}} meters elements of role meter
   */
  constructor(canvas, meters) {
    this.#canvas = canvas;
    this.#meters = meters;
    new ResizeObserver(() => this.#resize()).observe(canvas);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.#recolour());
    this.#recolour();
  }

  /** @param {(side: "you" | "agent") => number} read dBFS of a side, now */
  start(read) {
    this.#read = read;
    this.#bars = [];
    this.#barStartedAt = performance.now();
    this.#running = true;
    requestAnimationFrame((now) => this.#frame(now));
  }

  /** The picture stays, the meters fall. */
  stop() {
    this.#running = false;
    for (const side of SIDES) this.#showMeter(side, FLOOR_DB, true);
    this.#draw(0);
  }

  setMuted(muted) {
    this.#muted = muted;
  }

  #frame(now) {
    if (!this.#running) return;
    const announce = now - this.#ariaAt > ARIA_EVERY_MS;
    if (announce) this.#ariaAt = now;
    for (const side of SIDES) {
      const db = this.#read(side);
      this.#peak[side] = Math.max(this.#peak[side], db);
      this.#showMeter(side, db, announce);
    }
    this.#advance(now);
    this.#draw(this.#still.matches ? 0 : (now - this.#barStartedAt) / BAR_MS);
    requestAnimationFrame((next) => this.#frame(next));
  }

  /** Close every bar whose 80 ms are over. A slow page draws one twice; a hidden one was quiet. */
  #advance(now) {
    const due = Math.floor((now - this.#barStartedAt) / BAR_MS);
    if (due === 0) return;
    this.#barStartedAt += due * BAR_MS;
    const quiet = { you: FLOOR_DB, agent: FLOOR_DB };
    const bar = { ...(due > SLOW_BARS ? quiet : this.#peak), muted: this.#muted };
    for (let count = Math.min(due, HISTORY); count > 0; count -= 1) this.#bars.push(bar);
    if (this.#bars.length > HISTORY) this.#bars.splice(0, this.#bars.length - HISTORY);
    this.#peak = quiet;
  }

  #showMeter(side, db, announce) {
    const meter = this.#meters[side];
    meter.firstElementChild.style.transform = `scaleY(${Math.max(0.02, loudness(db)).toFixed(3)})`;
    if (!announce) return;
    meter.setAttribute("aria-valuenow", String(Math.round(db)));
    meter.setAttribute("aria-valuetext", loudnessInWords(db));
  }

  #resize() {
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    this.#draw(0);
  }

  #recolour() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["you", "agent", "rule"]) {
      this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.#draw(0);
  }

  /** @param {number} progress of the bar in the making, 0 to 1: it slides in from the right */
  #draw(progress) {
    const context = this.#canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    const width = this.#canvas.width / ratio;
    const height = this.#canvas.height / ratio;
    const pitch = width < 560 ? 5 : 8;
    const thickness = pitch < 8 ? 3 : 4;
    const middle = height / 2;
    const reach = middle - GAP;

    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);

    const count = Math.ceil(width / pitch) + 2;
    for (let back = 0; back < count; back += 1) {
      const x = width - (back + progress) * pitch;
      const bar = this.#bars[this.#bars.length - 1 - back];
      for (const side of SIDES) {
        const silent = !bar || (side === "you" && bar.muted);
        const length = Math.max(thickness, silent ? 0 : reach * loudness(bar[side]));
        context.fillStyle = this.#colours[length > thickness ? side : "rule"];
        context.beginPath();
        context.roundRect(x, side === "you" ? middle - GAP - length : middle + GAP, thickness, length, thickness / 2);
        context.fill();
      }
    }
  }
}
