/** Everything that can go wrong with a call, in plain words: what happened, and what to do. */

/** What browsers give as the code of a relay that does not answer. */
export const UNREACHABLE = 701;

/** @typedef {{url: string, code: number, text: string}} RelayFault what a TURN relay answered */

export class CallProblem extends Error {
  /**
   * @param {string} code one of the keys below, or a code of the server
   * @param {{status?: number, message?: string, detail?: string, retryAfterS?: number | null,
   *   hasTurn?: boolean, relayFault?: RelayFault | null}} context
   */
  constructor(code, context = {}) {
    super(code);
    this.name = "CallProblem";
    this.code = code;
    this.context = context;
  }
}

const blockedSteps = [
  "Open the site settings next to the address and set Microphone to Allow.",
  "If it is allowed there, check that the system lets this browser use the microphone.",
];

const WORDS = {
  insecure: () => ({
    title: "This address cannot use a microphone",
    text: `The page was opened at ${location.origin}. Browsers give a page the microphone only over HTTPS, or on the machine itself.`,
    steps: [
      `On the machine that runs the server, open http://localhost${location.port ? `:${location.port}` : ""}`,
      "From anywhere else, the page has to come over HTTPS: put a certificate, or a proxy that has one, in front of the server.",
    ],
  }),
  unsupported: () => ({
    title: "This browser cannot make calls",
    text: "It has no WebRTC, or it is turned off. A current Chrome, Edge, Firefox or Safari will do.",
  }),
  microphone_refused: () => ({
    title: "The microphone was refused",
    text: "The browser did not let this page use the microphone, so the agent could not hear you.",
    steps: blockedSteps,
  }),
  microphone_missing: () => ({
    title: "No microphone found",
    text: "The browser sees no microphone on this device.",
    steps: ["Plug one in, or switch on a headset, and try again."],
  }),
  microphone_busy: () => ({
    title: "The microphone is busy",
    text: "It is there, but it would not start. Another program may be using it.",
    steps: ["Close other calls and recorders, or choose another microphone, and try again."],
  }),
  microphone_failed: ({ detail }) => ({
    title: "The microphone did not start",
    text: "The browser gave an error that does not say more about the cause.",
    detail,
  }),
  unreachable: ({ detail }) => ({
    title: "The server does not answer",
    text: `Nothing came back from ${location.host}. The server may be stopped, or the network may be down.`,
    detail,
  }),
  gateway: ({ status }) => ({
    title: "Something in front of the server failed",
    text: `The answer was HTTP ${status}, and it did not come from rtc-agent itself. A proxy between here and the server may not reach it.`,
  }),
  not_our_server: () => ({
    title: "This is not an rtc-agent server",
    text: "What answered at this address does not speak the language of this page.",
  }),
  server_full: () => ({
    title: "All lines are busy",
    text: "The server is taking as many calls as it can carry.",
  }),
  unauthorized: () => ({
    title: "This server wants a key",
    text: "It takes calls from those who bring one, and this page has none that does.",
    steps: ["Whoever runs the server gives out keys. Put it at the end of this page's address: #key=YOUR-KEY"],
  }),
  server_draining: () => ({
    title: "The server is shutting down",
    text: "It lets calls in progress finish and takes no new ones. It may be back shortly.",
  }),
  engine_failed: ({ message }) => ({
    title: "The agent is not running",
    text: "The server is up, but the agent behind it has stopped. Whoever runs the server finds the cause in its log.",
    detail: message,
  }),
  no_network_path: ({ hasTurn, relayFault }) => ({
    title: "No path for sound",
    text: "The page reached the server, but sound did not. Sound travels over UDP, and something on the way does not let UDP through: a firewall, a VPN, an SSH tunnel, or a container without its UDP ports open.",
    steps: [
      "Try another network, or switch the VPN off.",
      hasTurn
        ? relayWords(relayFault)
        : "Whoever runs the server can open its UDP ports, or set up a TURN relay, which carries sound where UDP is blocked. None is set up.",
    ],
  }),
  agent_silent: () => ({
    title: "The agent did not get ready",
    text: "The connection stands, but the agent behind it did not start in time.",
  }),
};

/** @param {RelayFault | null} [fault] @returns {string} */
function relayWords(fault) {
  const known = "This server names a TURN relay, which did not carry the call either.";
  if (!fault) {
    return `${known} Whoever runs the server should check the relay's address, ports and password.`;
  }
  if (fault.code === 401) {
    return `${known} ${fault.url} refused the credentials that this server gave out: they are wrong, or have expired. Whoever runs the server should compare its turn_secret with the relay's, and the clocks of both.`;
  }
  if (fault.code >= UNREACHABLE) {
    return `${known} ${fault.url} cannot be reached from here. Whoever runs the server should check the relay's address and ports.`;
  }
  return `${known} ${fault.url} refused to relay (${fault.code} ${fault.text}).`;
}

/** For codes of the server without words of their own: what it said, word for word. */
const refused = ({ status, message }) => ({
  title: "The server did not take the call",
  text: message || `It answered with HTTP ${status} and gave no reason.`,
});

/**
 * @param {CallProblem} problem
 * @returns {{title: string, text: string, steps: string[], detail: string}}
 */
export function describeProblem(problem) {
  const words = (WORDS[problem.code] ?? refused)(problem.context);
  return { steps: [], detail: "", ...words };
}

const ENDINGS = {
  caller_hangup: "You hung up.",
  hangup: "You hung up.",
  peer_closed: "The server closed the connection.",
  connection_lost: "The connection was lost and did not come back.",
  connection_failed: "The connection was lost and did not come back.",
};

/**
 * Why a call ended, as a sentence. The server's own words win over ours.
 * @param {string} reason @param {string} [message]
 */
export function describeEnding(reason, message) {
  return message || ENDINGS[reason] || `The server ended the call (${reason.replaceAll("_", " ")}).`;
}
