// A whole conversation on the protocol's own TypeScript SDK: node client.mjs NODE_MODULES FOLDER COMMAND...
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/v1/stable/acp.js`).href);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const seen = { text: "", kinds: [], variants: new Set() };
const client = acp.client({ name: "conversation" });
client.onNotification(acp.CLIENT_METHODS.session_update, ({ params: { update } }) => {
  seen.kinds.push(update.sessionUpdate);
  if (update.sessionUpdate !== "agent_message_chunk") return;
  seen.text += update.content.text;
  if (update._meta) seen.variants.add(update._meta.warmline.variant);
});
client.onRequest(acp.CLIENT_METHODS.session_request_permission, ({ params: { options } }) => ({
  outcome: { outcome: "selected", optionId: options[0].optionId },
}));
await client.connectWith(stream, async (agent) => {
  const ask = (method, params) => agent.request(acp.AGENT_METHODS[method], params);
  const hello = await ask("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId, configOptions } = await ask("session_new", { cwd, mcpServers: [] });
  const say = (text) => ask("session_prompt", { sessionId, prompt: [{ type: "text", text }] });
  const first = await say("Write it.");
  const choice = { sessionId, configId: "variant", value: "llama/plain" };
  const options = await ask("session_set_config_option", choice);
  const second = await say("Again.");
  const listed = await ask("session_list", { cwd });
  console.log(
    JSON.stringify({
      version: hello.protocolVersion,
      categories: configOptions.map((option) => option.category),
      current: options.configOptions[0].currentValue,
      stops: [first.stopReason, second.stopReason],
      variants: [...seen.variants],
      text: seen.text,
      kinds: [...new Set(seen.kinds)].sort(),
      sessions: listed.sessions.length,
    }),
  );
});
agent.stdin.end();
