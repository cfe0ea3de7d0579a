// Turns of a client, as standard input asks for them: `{"in_flight": 64, "seconds": 2}` on a line is answered by a line
// with what was measured.
import { spawn } from "node:child_process";
import http from "node:http";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export const STEPS = 5;

/** What a step comes to. */
export const work = (at) => ({ summary: "done", at });

/** Serves turns of `run`, which takes an execution of that name from its start to its end, and throws where it cannot. */
export async function serve(engine, run) {
  console.log(JSON.stringify({ engine }));
  let last = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const { in_flight, seconds } = JSON.parse(line);
    const began = performance.now();
    const took = [];
    const lane = async () => {
      do {
        const asked = performance.now();
        await run(`execution-${last++}`);
        took.push((performance.now() - asked) / 1000);
      } while (performance.now() - began < seconds * 1000);
    };
    await Promise.all(Array.from({ length: in_flight }, lane));
    const lasted = (performance.now() - began) / 1000;
    took.sort((one, other) => one - other);
    const at = (share) => took[Math.floor(((took.length - 1) * share) / 100)];
    console.log(JSON.stringify({ workflows: took.length, seconds: lasted, p50: at(50), p99: at(99) }));
  }
  process.exit(0);
}

const agent = new http.Agent({ keepAlive: true });

/** Posts JSON over a kept connection: the text of the answer. */
export function post(url, body, headers = {}) {
  const text = JSON.stringify(body);
  const options = {
    method: "POST",
    agent,
    headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text), ...headers },
  };
  return new Promise((resolve, reject) => {
    const request = http.request(url, options, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (part) => (answer += part));
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode < 300) resolve(answer);
        else reject(new Error(`${response.statusCode}: ${answer.slice(0, 300)}`));
      });
    });
    request.on("error", reject);
    request.end(text);
  });
}

/** A server that ends with this process. */
export function start(program, args, options) {
  const child = spawn(program, args, options);
  process.on("exit", () => child.kill("SIGKILL"));
  child.on("exit", (code) => {
    console.error(`${program} ended with ${code}`);
    process.exit(1);
  });
  return child;
}

/** A port that nobody listens on. */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
