/** Mute by a press, or for as long as the button or the key M is held. */

import { element } from "./dom.js";

/** A press that lasts longer is a hold. */
const HOLD_MS = 600;
const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

/** @param {() => import("./call.js").Call | null} call in progress @param {(muted: boolean) => void} setMuted */
export function listenForMute(call, setMuted) {
  const button = element("mute");
  let pressedAt = null;
  let swallowClick = false;

  const toggle = () => setMuted(!call().muted);
  const press = () => {
    if (!call() || pressedAt !== null) return;
    pressedAt = performance.now();
    toggle();
  };
  /** A hold is undone. */
  const release = () => {
    if (pressedAt === null) return;
    const held = performance.now() - pressedAt > HOLD_MS;
    pressedAt = null;
    if (held && call()) toggle();
  };

  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    press();
    swallowClick = true;
  });
  addEventListener("pointerup", () => {
    release();
    // The click of this press comes before any timer; one that never comes leaves nothing behind.
    setTimeout(() => (swallowClick = false));
  });
  addEventListener("pointercancel", release);
  // A click that no pointer made is the keyboard's, or a screen reader's.
  button.addEventListener("click", () => {
    if (!swallowClick && call()) toggle();
    swallowClick = false;
  });
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  addEventListener("blur", release);

  const isKey = (event) => event.key?.toLowerCase() === "m";
  document.addEventListener("keydown", (event) => {
    if (!isKey(event) || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!element("key-mute").checked || event.target.closest?.(FIELDS)) return;
    press();
  });
  document.addEventListener("keyup", (event) => {
    if (isKey(event)) release();
  });
}
