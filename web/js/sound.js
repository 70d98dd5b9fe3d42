/**
 * The agent's sound, through an audio element: a browser's echo canceller knows what an element
 * plays, and does not know what Web Audio plays.
 */
export class Sound {
  #element;

  /** @param {HTMLAudioElement} element @param {(blocked: boolean) => void} onBlocked */
  constructor(element, onBlocked) {
    this.#element = element;
    this.onBlocked = onBlocked;
    element.addEventListener("playing", () => onBlocked(false));
  }

  /** Inside the click: browsers that allow sound only after a touch take this as the touch. */
  prime() {
    this.play(new MediaStream());
  }

  /** @param {MediaStream} stream */
  play(stream) {
    this.#element.srcObject = stream;
    this.resume();
  }

  /** Also the answer to "tap for sound". */
  resume() {
    this.#element.play().catch((error) => {
      // AbortError: another stream took its place, and plays itself.
      if (error.name === "NotAllowedError") this.onBlocked(true);
      else if (error.name !== "AbortError") console.warn("no sound:", error.message);
    });
  }

  stop() {
    this.#element.pause();
    this.#element.srcObject = null;
    this.onBlocked(false);
  }
}
