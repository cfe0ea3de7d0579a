// Restate: its server, and the service that it calls, which is in this process together with the client.
import { openSync } from "node:fs";
import { createRequire } from "node:module";
import * as restate from "@restatedev/restate-sdk";
import { STEPS, freePort, post, serve, start, work } from "./turns.mjs";

const [directory] = process.argv.slice(2);
const chain = restate.service({
  name: "chain",
  handlers: {
    run: async (ctx, steps) => {
      let last;
      for (let at = 0; at < steps; at++) last = await ctx.run(`step-${at}`, () => work(at));
      return last;
    },
  },
});
// What the SDK would log of each call.
const service = await freePort();
restate.serve({ services: [chain], port: service, logger: () => {} });

const [ingress, admin, node] = await Promise.all([freePort(), freePort(), freePort()]);
const require = createRequire(import.meta.url);
const program = require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
const log = openSync(`${directory}/server.log`, "w");
const server = start(program, ["--base-dir", `${directory}/data`, "--node-name", "one", "--listen-mode", "tcp", "--no-logo"], {
  stdio: ["ignore", log, log],
  env: {
    ...process.env,
    RUST_LOG: "error",
    DO_NOT_TRACK: "1",
    RESTATE_BIND_IP: "127.0.0.1",
    RESTATE_BIND_PORT: node,
    RESTATE_INGRESS__BIND_PORT: ingress,
    RESTATE_ADMIN__BIND_PORT: admin,
  },
});

/** Tries until it works; the server takes some seconds to start. */
async function eventually(act) {
  for (let tries = 300; ; tries--) {
    try {
      return await act();
    } catch (error) {
      if (tries === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function run(name) {
  const last = JSON.parse(await post(`http://127.0.0.1:${ingress}/chain/run`, STEPS, { "idempotency-key": name }));
  if (last.at !== STEPS - 1) throw new Error(`its last step was ${JSON.stringify(last)}`);
}

await eventually(() => post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${service}` }));
await eventually(() => run("first"));
await serve([server.pid], run);
