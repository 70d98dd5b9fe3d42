/** The server's HTTP side: what it is, and the offer that opens a call. */

import { keyHeaders } from "./key.js";
import { CallProblem } from "./problems.js";

const REQUEST_TIMEOUT_MS = 10_000;

/** Paths are relative to the page, so that the whole may sit under a prefix behind a proxy. */
const url = (path) => new URL(path, document.baseURI);

/** @returns {Promise<Response>} what is not refused */
async function send(path, options = {}) {
  let response;
  try {
    response = await fetch(url(path), {
      cache: "no-store",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      ...options,
      headers: { ...keyHeaders(), ...options.headers },
    });
  } catch (error) {
    throw new CallProblem("unreachable", { detail: error.message });
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function request(path, options) {
  const response = await send(path, options);
  try {
    return await response.json();
  } catch {
    throw new CallProblem("not_our_server", { status: response.status });
  }
}

/** Only what the server itself says is taken for its reason: a proxy's 503 is not "server full". */
async function refusal(response) {
  const body = await response.json().catch(() => null);
  const error = body?.error;
  if (typeof error?.code !== "string") {
    return new CallProblem("gateway", { status: response.status });
  }
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return new CallProblem(error.code, {
    status: response.status,
    message: error.message,
    retryAfterS: Number.isFinite(seconds) ? seconds : null,
  });
}

const json = (method, body) => ({
  method,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

/** Agent, voices, slots, ICE servers, as `/v1/info` gives them. */
export const fetchInfo = () => request("v1/info");

/** @param {string} voice @returns {Promise<Blob>} a few seconds of it @throws {CallProblem} */
export async function fetchSample(voice) {
  const response = await send(`v1/voices/${encodeURIComponent(voice)}/sample`);
  return response.blob();
}

/**
 * @param {RTCSessionDescription} description
 * @param {{voice?: string, persona?: string, recording_consent?: boolean}} requestData
 * @param {string | null} pcId of a call whose connection this one replaces
 * @returns {Promise<{sdp: string, type: "answer", pc_id: string}>}
 */
export const postOffer = (description, requestData, pcId = null) =>
  request(
    "api/offer",
    json("POST", {
      sdp: description.sdp,
      type: description.type,
      pc_id: pcId,
      restart_pc: pcId !== null,
      request_data: requestData,
    }),
  );

/** End a call that has no text channel to say so on, also from a page that is gone by then.
 * @param {string} pcId */
export const postHangUp = (pcId) =>
  send(`v1/realtime/calls/${encodeURIComponent(pcId)}/hangup`, { method: "POST", keepalive: true });

/** @param {string} pcId @param {RTCIceCandidateInit[]} candidates */
export const patchCandidates = (pcId, candidates) =>
  request(
    "api/offer",
    json("PATCH", {
      pc_id: pcId,
      candidates: candidates.map((candidate) => ({
        candidate: candidate.candidate,
        sdp_mid: candidate.sdpMid,
        sdp_mline_index: candidate.sdpMLineIndex,
      })),
    }),
  );
