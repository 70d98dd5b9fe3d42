/** @openai/agents-realtime: the session class that applications use, and its bare transport. */

import { OpenAIRealtimeWebRTC, RealtimeAgent, RealtimeSession } from "@openai/agents-realtime";

/** Every server event, in order. */
export const log = [];
export const errors = [];
let session;
let transport;

async function clientSecret(server, config) {
  const response = await fetch(`${server}/v1/realtime/client_secrets`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ session: { type: "realtime", ...config } }),
  });
  if (!response.ok) throw new Error(`client_secrets: ${response.status}`);
  return (await response.json()).value;
}

/** As the SDK's guide has it: a key from the application's server, then one call. */
export async function connect(server, { instructions = "", voice } = {}) {
  const agent = new RealtimeAgent({ name: "Assistant", instructions });
  transport = new OpenAIRealtimeWebRTC({ baseUrl: `${server}/v1/realtime/calls` });
  session = new RealtimeSession(agent, { transport, config: voice ? { voice } : {} });
  session.on("error", (error) => errors.push(structuredClone(error.error ?? error)));
  session.on("transport_event", (event) => log.push(structuredClone(event)));
  await session.connect({ apiKey: await clientSecret(server, {}) });
  return transport.callId;
}

/** With a key that was never made. */
export async function connectWith(server, apiKey) {
  transport = new OpenAIRealtimeWebRTC({ baseUrl: `${server}/v1/realtime/calls` });
  try {
    await transport.connect({ apiKey });
    return "connected";
  } catch (error) {
    return error.message;
  }
}

export const status = () => transport.status;
export const history = () => structuredClone(session.history);
export const interrupt = () => session.interrupt();
export const mute = (muted) => session.mute(muted);
export const sendMessage = (text) => session.sendMessage(text);
export const close = () => session.close();
