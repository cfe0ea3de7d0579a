// midex as a server, over HTTP or over standard streams, with a client of the kind that restate.mjs has.
import { createInterface } from "node:readline";
import { STEPS, post, serve, start, work } from "./turns.mjs";

const [transport, program, ...args] = process.argv.slice(2);
const over = { http, lines };
const { server, call } = await over[transport]();
await serve([server.pid], run);

async function run(name) {
  let last = await call("workflow.start", { workflow_name: "chain", execution_id: name });
  let at = 0;
  for (; last.new_token; at++) last = await call("workflow.next_step", { token: last.new_token, output: work(at) });
  if (last.workflow_state !== "completed" || at !== STEPS) throw new Error(`after ${at} steps: ${JSON.stringify(last)}`);
}

/** Over HTTP, each call by itself. */
async function http() {
  const server = start(program, [...args, "--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const url = await new Promise((resolve) => {
    const said = createInterface({ input: server.stderr });
    said.on("line", (line) => {
      const found = line.match(/http:\/\/127\.0\.0\.1:\d+\/mcp/);
      if (found) resolve(found[0]);
    });
  });
  const version = "2026-07-28";
  const _meta = { "io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {} };
  let id = 0;
  const call = async (name, given) => {
    const body = { jsonrpc: "2.0", id: id++, method: "tools/call", params: { _meta, name, arguments: given } };
    const headers = {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": version,
      "mcp-method": "tools/call",
      "mcp-name": name,
    };
    return result(JSON.parse(await post(url, body, headers)));
  };
  return { server, call };
}

/** Over standard streams: all calls on one pair. */
async function lines() {
  const server = start(program, args, { stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map();
  createInterface({ input: server.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  });
  let id = 0;
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = (method, params) =>
    new Promise((resolve) => {
      waiting.set(++id, resolve);
      send({ id, method, params });
    });
  const clientInfo = { name: "peers", version: "0" };
  await ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
  send({ method: "notifications/initialized" });
  return { server, call: async (name, given) => result(await ask("tools/call", { name, arguments: given })) };
}

function result(message) {
  const answer = message.result?.structuredContent;
  if (!answer?.success) throw new Error(JSON.stringify(message).slice(0, 300));
  return answer;
}
