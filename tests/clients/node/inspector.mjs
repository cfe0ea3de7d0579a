// The Inspector's command line: one connection for each call, so that nothing can hang on a session. It cannot subscribe.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

import { Checks, ENDPOINT, MIDEX, PATIENCE_MS, SCENE, inTime, serveArguments, walk } from './scene.mjs';

const checks = new Checks();

/** A program that the package declares. */
function program(name) {
  const manifest = createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json');
  const { bin } = createRequire(import.meta.url)(manifest);
  return path.join(path.dirname(manifest), bin[name]);
}

const INSPECTOR = program('mcp-inspector');
const SESSIONS = program('mcpdo');

function run(target, era, options) {
  return runProgram([INSPECTOR, '--cli', ...target, '--protocol-era', era, ...options, '--format', 'json', '-q'], options);
}

async function runProgram(args, options, env = process.env) {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const ended = new Promise((resolve, reject) => {
    const output = { stdout: '', stderr: '' };
    child.stdout.on('data', (data) => (output.stdout += data));
    child.stderr.on('data', (data) => (output.stderr += data));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...output }));
  });
  try {
    return await inTime(ended, PATIENCE_MS, `the Inspector's answer to ${options.join(' ')}`);
  } finally {
    child.kill();
  }
}

/** The answer to a method; a tool that fails is an answer too, with an exit code of its own. */
async function ask(target, era, options) {
  const { code, stdout, stderr } = await run(target, era, options);
  if (code !== 0 && code !== 5) throw new Error(`exit ${code} of ${options.join(' ')}: ${stdout}${stderr}`);
  const answer = JSON.parse(stdout);
  return answer.result ?? answer;
}

function client(target, era) {
  const method = (name, ...options) => ask(target, era, ['--method', name, ...options]);
  return {
    tools: async () => (await method('tools/list')).tools.map((tool) => tool.name),
    templates: async () => (await method('resources/templates/list')).resourceTemplates.map((template) => template.uriTemplate),
    call: async (tool, args) => {
      const result = await method('tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args));
      return { failed: result.isError === true, value: result.structuredContent };
    },
    read: async (uri) => JSON.parse((await method('resources/read', '--uri', uri)).contents[0].text),
  };
}

async function session(name, target, era) {
  const strict = await run(target, era, ['--method', 'tools/list', '--strict']);
  checks.that(strict.code === 0, `${name}: every schema is portable`, strict);
  const skills = await run(target, era, ['--method', 'skills/list', '--verify']);
  checks.that(skills.code === 0, `${name}: every skill is what its entry says`, skills);
  await walk(checks, name, client(target, era));
}

const GATED = `workflow: gated
description: A person decides
steps:
  - { id: ask, gate: 'Ship it?' }
  - { id: keep, set: { shipped: true } }
final_output: { shipped: '\${{ memory.shipped }}' }
`;

/** A task from its start, over the question to the user, to its end: the Inspector polls it, and a person answers. */
async function task(name) {
  const home = path.join(SCENE, 'inspector-home');
  let env = { ...process.env, HOME: home };
  const mcpdo = async (...options) => {
    const { code, stdout, stderr } = await runProgram([SESSIONS, '--format', 'json', ...options], options, env);
    if (code !== 0) throw new Error(`exit ${code} of ${options.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  // A daemon of its own keeps the connection between the commands.
  const exports = (await mcpdo('private')).matchAll(/^export (\w+)='([^']*)'/gm);
  env = { ...env, ...Object.fromEntries([...exports].map(([, key, value]) => [key, value])) };
  try {
    const target = [MIDEX, ...serveArguments(name.replaceAll(' ', '-'))];
    const connection = JSON.parse(await mcpdo('connect', '--era', 'modern', '--', ...target)).name;
    const on = (...options) => mcpdo('--connection', connection, ...options);
    const run = JSON.stringify({ manifest: GATED });
    const asked = JSON.parse(await on('tools/call', 'workflow.run', '--tool-args-json', run)).elicitationPending;
    checks.that(asked?.origin === 'task-input-required', `${name}: the task asks for input`, asked);
    checks.that(asked?.message === 'Ship it?', `${name}: the question is that of the gate`, asked);
    const result = JSON.parse(await on('elicitation/respond', asked.elicitationId, 'decision:=approve'));
    const answer = result.structuredContent;
    checks.that(answer?.status === 'succeeded', `${name}: the task ends as the run`, result);
    checks.that(answer?.final_output?.shipped === true, `${name}: the result is that of the run`, result);
  } finally {
    await mcpdo('daemon', 'stop');
  }
}

// All at once: a connection is a process, and most of its time is its start.
await Promise.all(['legacy', 'modern'].flatMap((era) => {
  const stdio = `inspector ${era} stdio`;
  const http = `inspector ${era} http`;
  return [
    checks.session(stdio, () => session(stdio, [MIDEX, ...serveArguments(stdio.replaceAll(' ', '-'))], era)),
    checks.session(http, () => session(http, [ENDPOINT], era)),
  ];
}).concat(checks.session('inspector task', () => task('inspector task'))));
checks.end();
