/** How good the call is: figures from the browser and the server, second by second. */

/** One packet of sound, filled before it can leave. */
const PACKET_MS = 20;
/** One step of the agent, heard whole before it can be answered. */
const STEP_MS = 80;

const KINDS = ["inbound-rtp", "remote-inbound-rtp"];

/** Cumulative counters of the browser; null where it does not count. */
function countersOf(report) {
  const [inbound, remote] = KINDS.map((type) =>
    [...report.values()].find((stat) => stat.type === type && (stat.kind ?? "audio") === "audio"),
  );
  return {
    received: inbound?.packetsReceived ?? null,
    lost: inbound?.packetsLost ?? null,
    samples: inbound?.totalSamplesReceived ?? null,
    concealed: inbound ? (inbound.concealedSamples ?? 0) - (inbound.silentConcealedSamples ?? 0) : null,
    bufferS: inbound?.jitterBufferDelay ?? null,
    emitted: inbound?.jitterBufferEmittedCount ?? null,
    jitterMs: inbound?.jitter === undefined ? null : inbound.jitter * 1_000,
    sentJitterMs: remote?.jitter === undefined ? null : remote.jitter * 1_000,
  };
}

/** What happened between two readings; null when it cannot be said, as after a new connection. */
function between(now, before, name) {
  if (now?.[name] == null || before?.[name] == null) return null;
  const difference = now[name] - before[name];
  return difference < 0 && name !== "lost" ? null : Math.max(0, difference);
}

const share = (part, whole) => (part === null || !whole ? null : (100 * part) / whole);
const most = (...values) => {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? Math.max(...known) : null;
};

/**
 * @typedef {{rttMs: number | null, lossPercent: number | null, lossUpPercent: number | null,
 *   lossDownPercent: number | null, jitterMs: number | null, concealedPercent: number | null,
 *   browserMs: number | null, serverMs: number | null, mouthToEarMs: number | null,
 *   droppedMs: number, underruns: number}} Figures
 */
export class Quality {
  #counters = null;
  #server = null;
  #serverBefore = null;
  #up = { loss: null, concealed: null, dropped: 0, underruns: 0 };
  #browserMs = null;

  rttMs = null;

  /** @param {object} stats a `stats` message of the text channel */
  fromServer(stats) {
    const before = (this.#serverBefore = this.#server);
    this.#server = stats;
    const since = (name) => between(stats, before, name);
    const lost = since("packets_lost");
    const received = since("packets_received");
    this.#up = {
      loss: share(lost, (received ?? 0) + (lost ?? 0)),
      concealed: share(since("concealed_ms"), before ? stats.t_ms - before.t_ms : 0),
      dropped: since("dropped_ms") ?? 0,
      underruns: since("underruns") ?? 0,
    };
  }

  /** @param {RTCStatsReport} report @param {number} outputMs of the loudspeaker @returns {Figures} */
  fromBrowser(report, outputMs) {
    const before = this.#counters;
    const now = (this.#counters = countersOf(report));
    const since = (name) => between(now, before, name);
    const lost = since("lost");
    const received = since("received");
    const down = share(lost, (received ?? 0) + (lost ?? 0));
    const emitted = since("emitted");
    if (emitted) this.#browserMs = (1_000 * since("bufferS")) / emitted;
    const serverMs = this.#server
      ? this.#server.receive_buffer_ms + this.#server.playout_buffer_ms
      : null;
    return {
      rttMs: this.rttMs,
      lossUpPercent: this.#up.loss,
      lossDownPercent: down,
      lossPercent: most(down, this.#up.loss),
      jitterMs: most(now.jitterMs, now.sentJitterMs, this.#server?.jitter_ms),
      concealedPercent: most(share(since("concealed"), since("samples")), this.#up.concealed),
      browserMs: this.#browserMs,
      serverMs,
      mouthToEarMs: this.#estimate(serverMs, outputMs),
      droppedMs: this.#up.dropped,
      underruns: this.#up.underruns,
    };
  }

  /**
   * From a sound at the microphone to the earliest answer at the ear: packet, way there, the
   * server's buffers, one step of the agent, way back, the browser's buffer and the loudspeaker.
   */
  #estimate(serverMs, outputMs) {
    if (this.rttMs === null || this.#browserMs === null || serverMs === null) return null;
    return PACKET_MS + this.rttMs + serverMs + STEP_MS + this.#browserMs + outputMs;
  }

  /**
   * ms from a text message's arrival to its sound: both left the server's agent together, the
   * sound then waits to be sent and to be played. null before it is known.
   */
  soundLagMs(outputMs) {
    if (this.#browserMs === null || this.#server === null) return null;
    return this.#server.playout_buffer_ms + PACKET_MS + this.#browserMs + outputMs;
  }
}
