// The official TypeScript SDK: version 1 with a handshake, version 2 in both eras of the protocol.

import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';

import { Checks, ENDPOINT, MIDEX, Updates, serveArguments, walk } from './scene.mjs';

const SELF = { name: 'midex-test', version: '1.0.0' };
const checks = new Checks();

/** What both versions have in common. */
function calls(client) {
  return {
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    templates: async () => (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate),
    call: async (tool, args) => {
      const result = await client.callTool({ name: tool, arguments: args });
      return { failed: result.isError === true, value: result.structuredContent };
    },
    read: async (uri) => JSON.parse((await client.readResource({ uri })).contents[0].text),
  };
}

function subscribing(client, updates) {
  return async (uri) => {
    await client.subscribeResource({ uri });
    return { changed: () => updates.next(), end: () => client.unsubscribeResource({ uri }) };
  };
}

function listening(client, updates) {
  return async (uri) => {
    const subscription = await client.listen({ resourceSubscriptions: [uri] });
    return { changed: () => updates.next(), end: () => subscription.close() };
  };
}

async function version1(name, transport) {
  const client = new ClientV1(SELF);
  const updates = new Updates();
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => updates.hear(params.uri));
  await client.connect(transport);
  checks.that(client.getServerVersion().name === 'midex', `${name}: shook hands`, client.getServerVersion());
  await walk(checks, name, { ...calls(client), watch: subscribing(client, updates) });
  await client.close();
}

async function version2(name, transport, mode, version) {
  const client = new ClientV2(SELF, { versionNegotiation: { mode } });
  const updates = new Updates();
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => updates.hear(params.uri));
  await client.connect(transport);
  const seen = client.getNegotiatedProtocolVersion();
  checks.that(seen === version, `${name}: they speak ${version}`, seen);
  const watch = mode === 'legacy' ? subscribing(client, updates) : listening(client, updates);
  await walk(checks, name, { ...calls(client), watch });
  await client.close();
}

const stdio = (Transport, name) => new Transport({ command: MIDEX, args: serveArguments(name.replaceAll(' ', '-')) });
const http = (Transport) => new Transport(new URL(ENDPOINT));

await checks.session('typescript1 stdio', () => version1('typescript1 stdio', stdio(StdioV1, 'typescript1 stdio')));
await checks.session('typescript1 http', () => version1('typescript1 http', http(HttpV1)));
for (const [mode, version] of [['auto', '2026-07-28'], ['legacy', '2025-11-25']]) {
  for (const [kind, transport] of [['stdio', (name) => stdio(StdioV2, name)], ['http', () => http(HttpV2)]]) {
    const name = `typescript2 ${mode} ${kind}`;
    await checks.session(name, () => version2(name, transport(name), mode, version));
  }
}
checks.end();
