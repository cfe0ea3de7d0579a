// What the checks share: a project with workflows, the real binary, a browser that notes everything it should not see, and
// the words `ok` and `not ok`.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

export { assert, sleep };

const binary = process.env.MIDEX_BIN;
/// Longer than any page takes on two slow cores that have other work too.
const PAGE_MS_MAX = 15_000;
/// The name that the dashboard records: it takes the first of these.
export const PERSON = "ada";

/// Waits until `probe` returns something that is true, and returns it.
export async function until(what, probe, limitMs = 10_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what} did not happen within ${limitMs} ms`);
    await sleep(20);
  }
}

// ---------------------------------------------------------------------------------------------------------------- checks

let failures = 0;
const watchers = new Set();

/// Runs one check within a time limit and prints its result. It also fails if an open browser recorded a problem meanwhile: an
/// error in the console, a dialog, a violation of the policy, or a request to another host.
export async function check(name, body, limitMs = 40_000) {
  const began = Date.now();
  const timer = new AbortController();
  try {
    const late = sleep(limitMs, null, { signal: timer.signal }).then(() => {
      throw new Error(`it took longer than ${limitMs} ms`);
    }, () => {});
    const note = await Promise.race([body(), late]);
    for (const watcher of watchers) assert.deepEqual(watcher.takeFaults(), [], "what the browser should not have seen");
    console.log(`ok ${name}${note ? `: ${note}` : ""}`);
  } catch (error) {
    failures += 1;
    console.log(`not ok ${name}: ${String(error.message).split("\n").slice(0, 12).join(" | ").slice(0, 1500)}`);
    console.error(`${name}:\n${error.stack}`);
    for (const watcher of watchers) {
      const faults = watcher.takeFaults();
      if (faults.length) console.error(`the browser saw: ${JSON.stringify(faults)}`);
    }
  } finally {
    timer.abort();
    console.error(`${name}: ${Date.now() - began} ms`);
  }
}

/// Runs the checks of a file, and ends all that they started.
export async function run(body) {
  const ends = [];
  const atEnd = (end) => ends.push(end);
  try {
    await body(atEnd);
    console.log("done");
  } finally {
    for (const end of ends.reverse()) await end().catch((error) => console.error(error));
  }
  process.exit(failures ? 1 : 0);
}

// ----------------------------------------------------------------------------------------------------------------- midex

/// A temporary project directory with workflows, a home directory and data directories.
export class Project {
  constructor(workflows) {
    this.dir = mkdtempSync(join(tmpdir(), "midex-browser-"));
    for (const name of ["workflows", "agents", "config", "data", "other"]) mkdirSync(join(this.dir, name));
    for (const [name, text] of Object.entries(workflows)) this.write(`workflows/${name}.yaml`, text);
    this.environment = {
      ...process.env, HOME: this.dir, XDG_CONFIG_HOME: join(this.dir, "config"), USER: PERSON, LOGNAME: PERSON,
    };
  }

  write(path, text) {
    writeFileSync(join(this.dir, path), text);
    return join(this.dir, path);
  }

  flags(data = "data") {
    return ["--data-dir", join(this.dir, data), "--workflows", join(this.dir, "workflows"), "--agents", join(this.dir, "agents")];
  }

  /// Runs `midex` with these arguments. Returns its output.
  command(args, { data = "data", fails = false } = {}) {
    return new Promise((resolve, reject) => {
      const options = { cwd: this.dir, env: this.environment, timeout: 20_000, maxBuffer: 1 << 26 };
      const child = execFile(binary, [...args, ...this.flags(data)], options, (error, stdout, stderr) => {
        if (error && !fails) reject(new Error(`midex ${args.join(" ").slice(0, 200)} (${error.code ?? error.signal}): ${stderr.slice(0, 500)}`));
        else resolve(stdout);
      });
      child.stdin.end();
    });
  }

  async json(args, options) {
    return JSON.parse(await this.command([...args, "--json"], options));
  }

  start(args, data = "data") {
    const options = { cwd: this.dir, env: this.environment, stdio: ["ignore", "pipe", "pipe"] };
    return new Running(spawn(binary, [...args, ...this.flags(data)], options));
  }

  /// A server that agents call over HTTP, with a dashboard beside it if it is to have one.
  async serve({ data = "data", listen = "127.0.0.1:0" } = {}) {
    const running = this.start(["serve", "--http", "127.0.0.1:0", ...(listen ? ["--dashboard", listen] : [])], data);
    const endpoint = await running.says(/http:\/\/127\.0\.0\.1:\d+\/mcp/);
    if (listen) await until("the dashboard listens", () => this.address(data));
    return Object.assign(running, { calls: await Calls.connect(endpoint) });
  }

  /// The dashboard alone: the process owns the executions too.
  async dashboard({ data = "data", listen = "127.0.0.1:0", flags = [] } = {}) {
    const running = this.start(["dashboard", "--no-open", "--listen", listen, ...flags], data);
    running.link = await running.says(/http:\/\/midex-[0-9a-f]+\.localhost:\d+\/enter\?key=\w+/);
    return running;
  }

  /// A new link into the dashboard that runs.
  async link(data = "data") {
    return (await this.command(["dashboard", "--no-open"], { data })).trim();
  }

  /// Where the dashboard is, and its secrets.
  address(data = "data") {
    try {
      const address = JSON.parse(readFileSync(join(this.dir, data, "dashboard.json"), "utf8"));
      const [, port] = address.listen.split(":");
      return { ...address, port: Number(port), origin: `http://${address.host}:${port}` };
    } catch {
      return null;
    }
  }

  async remove() {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const started = new Set();
// Kill all child processes when this process exits, also after a failure.
process.on("exit", () => { for (const child of started) child.kill("SIGKILL"); });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

/// A process that was started here.
class Running {
  constructor(child) {
    this.child = child;
    started.add(child);
    child.on("exit", () => started.delete(child));
    this.text = "";
    child.stdout.on("data", (data) => { this.text += data; });
    child.stderr.on("data", (data) => { this.text += data; });
    this.ended = new Promise((resolve) => child.on("exit", resolve));
  }

  /// Waits until its output matches; the match.
  async says(pattern) {
    const match = () => {
      if (this.child.exitCode !== null) throw new Error(`it ended with ${this.child.exitCode}: ${this.text}`);
      return this.text.match(pattern)?.[0];
    };
    return until(`the output ${pattern}`, match);
  }

  async kill(signal = "SIGKILL") {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.ended;
  }
}

/// Calls the tools of a server, as an agent does.
class Calls {
  static async connect(endpoint) {
    const calls = new Calls();
    Object.assign(calls, { endpoint, last: 0, headers: { "content-type": "application/json", accept: "application/json, text/event-stream" } });
    const reply = await calls.post({
      id: 0, method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "browser-checks", version: "1" } },
    });
    calls.headers["mcp-session-id"] = reply.headers.get("mcp-session-id");
    await reply.text();
    await (await calls.post({ method: "notifications/initialized" })).text();
    return calls;
  }

  post(message) {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    return fetch(this.endpoint, { method: "POST", headers: this.headers, body, signal: AbortSignal.timeout(30_000) });
  }

  /// Calls a tool; its result. Refusals are thrown.
  async tool(name, args) {
    const id = (this.last += 1);
    const text = await (await this.post({ id, method: "tools/call", params: { name, arguments: args } })).text();
    const lines = text.startsWith("{") ? [text] : text.split("\n").filter((line) => line.startsWith("data: {")).map((line) => line.slice(6));
    const reply = lines.map((line) => JSON.parse(line)).find((message) => message.id === id);
    const result = reply?.result?.structuredContent;
    if (!result || result.success === false) throw new Error(`${name}: ${(text || "no answer").slice(0, 800)}`);
    return result;
  }

  start(workflow, id, inputs = {}, labels = undefined) {
    return this.tool("workflow.start", { workflow_name: workflow, execution_id: id, inputs, labels });
  }

  /// Hands in an output, or an error, of the step that an answer opened.
  next(answer, outcome) {
    return this.tool("workflow.next_step", { token: answer.new_token, ...outcome });
  }

  /// Starts an execution, and hands in these outcomes.
  async advance(workflow, id, inputs, outcomes) {
    let answer = await this.start(workflow, id, inputs);
    for (const outcome of outcomes) answer = await this.next(answer, outcome);
    return answer;
  }

  async status(id) {
    return this.tool("execution.wait", { execution_id: id, timeout_s: 0 });
  }
}

/// An outcome of a step.
export const did = (summary) => ({ output: { summary } });
export const broke = (code, message) => ({ error: { code, message } });
export const pathOf = (id) => `/executions/${encodeURIComponent(id)}`;

// ------------------------------------------------------------------------------------------------------------------ HTTP

/// Sends a request as no browser would: with any header. The whole reply, or the reply as it begins for a stream.
export function request(address, path, { method = "GET", headers = {}, body, stream = false, cookie = true } = {}) {
  const all = { host: `${address.host}:${address.port}`, ...(cookie ? { cookie: `midex_dashboard=${address.cookie}` } : {}), ...headers };
  return new Promise((resolve, reject) => {
    const sent = http.request({ host: "127.0.0.1", port: address.port, path, method, headers: all, agent: false }, (reply) => {
      if (stream) {
        reply.on("error", () => {});
        resolve({ status: reply.statusCode, headers: reply.headers, reply, end: () => sent.destroy() });
        return;
      }
      const parts = [];
      reply.on("data", (part) => parts.push(part));
      reply.on("end", () => {
        const bytes = Buffer.concat(parts);
        resolve({ status: reply.statusCode, headers: reply.headers, bytes: bytes.length, text: bytes.toString("utf8") });
      });
      reply.on("error", reject);
    });
    sent.setTimeout(stream ? 0 : 20_000, () => sent.destroy(new Error(`${path} was not answered`)));
    sent.on("error", reject);
    sent.end(body);
  });
}

/// A form as a browser sends it.
export function form(fields) {
  return {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
  };
}

// --------------------------------------------------------------------------------------------------------------- browser

/// A browser, and the problems that its pages recorded.
export class Browser {
  static async launch() {
    const browser = new Browser();
    const args = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE *.localhost, EXCLUDE 127.0.0.1", "--disable-component-update"];
    // The sandbox of Chromium does not work for root, nor in most containers.
    browser.browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args, chromiumSandbox: false });
    browser.faults = [];
    browser.expected = [];
    browser.dialogs = [];
    watchers.add(browser);
    return browser;
  }

  /// A person who has come in by a link.
  async enter(link, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(PAGE_MS_MAX);
    const page = await context.newPage();
    this.watch(page, new URL(link).origin);
    await page.goto(link);
    return page;
  }

  watch(page, origin) {
    const note = (fault) => {
      if (!this.expected.some((pattern) => pattern.test(fault))) this.faults.push(fault);
    };
    page.on("console", (message) => { if (message.type() === "error") note(`console: ${message.text()}`); });
    page.on("pageerror", (error) => note(`error: ${error.message}`));
    page.on("request", (sent) => { if (!sent.url().startsWith(`${origin}/`)) note(`request: ${sent.url()}`); });
    page.on("dialog", async (dialog) => {
      this.dialogs.push(dialog.message());
      if (dialog.type() !== "confirm") note(`dialog: ${dialog.message()}`);
      await dialog.accept();
    });
  }

  /// Runs `body`, in which faults that match are meant.
  async expecting(patterns, body) {
    this.expected = patterns;
    try {
      return await body();
    } finally {
      // What the browser reports late belongs to it still.
      await sleep(100);
      this.expected = [];
    }
  }

  takeFaults() {
    return this.faults.splice(0);
  }

  async close() {
    watchers.delete(this);
    await this.browser.close();
  }
}

/// Opens a page of the dashboard by its path.
export async function show(page, path) {
  const reply = await page.goto(new URL(path, page.url()).href);
  assert.equal(reply.status(), 200, path);
}

/// The state in the heading of the page of an execution, without its sign.
export async function shownState(page) {
  const text = await page.locator("h1 .state").textContent();
  return text.replace(/^\S+\s+/, "").trim();
}

/// Waits until the heading of the open page says this state.
export async function waitForState(page, state) {
  await page.locator(`h1 .state.${state}`).waitFor();
}
