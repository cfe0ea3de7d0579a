// What every JavaScript client does with midex, and how it says what it saw.

import path from 'node:path';

export const MIDEX = process.env.MIDEX;
export const SCENE = process.env.SCENE;
export const ENDPOINT = process.env.ENDPOINT;

/** Generous: what is waited for comes at once, or not at all. */
export const PATIENCE_MS = 20_000;

/** Arguments that serve the scene on standard input and output, with a store of its own. */
export function serveArguments(name) {
  const data = path.join(SCENE, 'data', name);
  return ['serve', '--data-dir', data, '--workflows', path.join(SCENE, 'workflows'), '--agents', path.join(SCENE, 'agents')];
}

export const address = (resource, execution) => `midex://workflow/${resource}/${execution}`;

/** One line for each thing that was looked at. */
export class Checks {
  passed = 0;
  failed = 0;

  /** Notes that it holds; throws where it does not, for what follows would mean nothing. */
  that(holds, name, seen) {
    if (!holds) throw new Error(`${name}: seen was ${JSON.stringify(seen)}`);
    this.passed += 1;
    console.log(`ok ${name}`);
  }

  /** Runs one session to its end, and goes on with the next whatever comes of it. */
  async session(name, act) {
    try {
      await inTime(act(), 6 * PATIENCE_MS, 'the whole session');
    } catch (error) {
      this.failed += 1;
      console.log(`not ok ${name}: ${error.message}`);
      console.error(error);
    }
  }

  end() {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    process.exit(this.failed ? 1 : 0);
  }
}

/** Waits for it, and says what was waited for where it does not come. */
export async function inTime(promise, milliseconds, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Addresses as they are said to have changed, for whoever waits for the next one. */
export class Updates {
  #heard = [];
  #waiting = [];

  hear(uri) {
    const waiting = this.#waiting.shift();
    waiting ? waiting(uri) : this.#heard.push(uri);
  }

  next() {
    const heard = this.#heard.shift();
    return heard ? Promise.resolve(heard) : new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/**
 * Starts the two-step workflow, subscribes, advances to the end, and reads what there is to read. `client` hides which
 * SDK it is: `tools()`, `templates()`, `call(tool, args) -> {failed, value}`, `read(uri)`, and, where it can,
 * `watch(uri) -> {changed(), end()}`.
 */
export async function walk(checks, name, client) {
  const execution = name.replaceAll(' ', '-');
  const tools = await client.tools();
  checks.that(['workflow.start', 'workflow.next_step'].every((tool) => tools.includes(tool)), `${name}: both tools are listed`, tools);
  const templates = await client.templates();
  const wanted = ['workflow_status', 'current_step'].map((resource) => address(resource, '{execution_id}'));
  checks.that(wanted.every((uri) => templates.includes(uri)), `${name}: the resource templates are listed`, templates);

  const started = await client.call('workflow.start', { workflow_name: 'two-steps', execution_id: execution });
  const isFirst = !started.failed && started.value.workflow_state === 'running' && started.value.step_name === 'first';
  checks.that(isFirst, `${name}: started, at its first step`, started);
  const current = await client.read(address('current_step', execution));
  checks.that(current.current_step === 'first', `${name}: current_step is read`, current);

  const status = address('workflow_status', execution);
  const watch = client.watch && (await client.watch(status));
  const second = await client.call('workflow.next_step', { token: started.value.new_token, output: { summary: 'the first is done' } });
  checks.that(!second.failed && second.value.step_name === 'second', `${name}: advanced to its second step`, second);
  if (watch) {
    const told = await inTime(watch.changed(), PATIENCE_MS, 'word of the change');
    checks.that(told === status, `${name}: told that workflow_status has changed`, told);
    await watch.end();
  }

  const last = await client.call('workflow.next_step', { token: second.value.new_token, output: { summary: 'the second is done' } });
  checks.that(!last.failed && last.value.workflow_state === 'completed', `${name}: advanced to the end`, last);
  const seen = await client.read(status);
  checks.that(seen.state === 'completed' && seen.steps.completed === 2, `${name}: workflow_status says that it is completed`, seen);

  const refused = await client.call('workflow.next_step', { token: 'nonsense', output: { summary: 'no' } });
  const isHelpful = refused.failed && refused.value.error_code && refused.value.suggested_action;
  checks.that(isHelpful, `${name}: a bad token is refused with the right next call`, refused);
}
