"""What every Python client does with midex, and how it says what it saw."""

import asyncio
import json
import os
import sys
import traceback

MIDEX = os.environ["MIDEX"]
SCENE = os.environ["SCENE"]
ENDPOINT = os.environ["ENDPOINT"]

# Generous: what is waited for comes at once, or not at all.
PATIENCE_SECONDS = 20


def serve_arguments(name):
    """Arguments that serve the scene on standard input and output, with a store of its own."""
    data = os.path.join(SCENE, "data", name)
    return ["serve", "--data-dir", data, "--workflows", f"{SCENE}/workflows", "--agents", f"{SCENE}/agents"]


def address(resource, execution):
    return f"midex://workflow/{resource}/{execution}"


class Broken(Exception):
    """Something was not as it should be."""


class Checks:
    """One line for each thing that was looked at."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def that(self, holds, name, seen):
        """Notes that it holds; raises `Broken` where it does not, for what follows would mean nothing."""
        if not holds:
            raise Broken(f"{name}: seen was {seen!r}")
        self.passed += 1
        print(f"ok {name}", flush=True)

    async def session(self, name, act):
        """Runs one session to its end, and goes on with the next whatever comes of it."""
        try:
            await asyncio.wait_for(act, 6 * PATIENCE_SECONDS)
        except BaseException as error:  # noqa: BLE001 - groups of exceptions, timeouts: each is a failure
            self.failed += 1
            print(f"not ok {name}: {reasons(error)}", flush=True)
            traceback.print_exception(error, file=sys.stderr)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed else 0)


def reasons(error):
    """What went wrong, out of however many groups it is wrapped in."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(reasons(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def walk(checks, name, client):
    """Starts the two-step workflow, subscribes, advances to the end, and reads what there is to read.

    `client` hides which SDK and which revision of the protocol it is: `tools()`, `templates()`, `call(tool,
    arguments) -> (is_error, value)`, `read(uri) -> value`, `watching(uri)`, a context that gives an awaitable which
    ends when the resource is said to have changed.
    """
    execution = name.replace(" ", "-")
    tools = await client.tools()
    wanted = {"workflow.start", "workflow.next_step"}
    checks.that(wanted <= set(tools), f"{name}: both tools are listed", tools)
    templates = await client.templates()
    wanted = {"midex://workflow/workflow_status/{execution_id}", "midex://workflow/current_step/{execution_id}"}
    checks.that(wanted <= set(templates), f"{name}: the resource templates are listed", templates)

    start = {"workflow_name": "two-steps", "execution_id": execution}
    failed, step = await client.call("workflow.start", start)
    good = not failed and step["workflow_state"] == "running" and step["step_name"] == "first"
    checks.that(good, f"{name}: started, at its first step", step)
    current = await client.read(address("current_step", execution))
    checks.that(current["current_step"] == "first", f"{name}: current_step is read", current)

    status = address("workflow_status", execution)
    async with client.watching(status) as changed:
        arguments = {"token": step["new_token"], "output": {"summary": "the first is done"}}
        failed, step = await client.call("workflow.next_step", arguments)
        good = not failed and step["step_name"] == "second"
        checks.that(good, f"{name}: advanced to its second step", step)
        told = await asyncio.wait_for(changed(), PATIENCE_SECONDS)
        checks.that(told == status, f"{name}: told that workflow_status has changed", told)

    arguments = {"token": step["new_token"], "output": {"summary": "the second is done"}}
    failed, last = await client.call("workflow.next_step", arguments)
    good = not failed and last["workflow_state"] == "completed"
    checks.that(good, f"{name}: advanced to the end", last)
    seen = await client.read(status)
    good = seen["state"] == "completed" and seen["steps"]["completed"] == 2
    checks.that(good, f"{name}: workflow_status says that it is completed", seen)

    failed, refusal = await client.call("workflow.next_step", {"token": "nonsense", "output": {"summary": "no"}})
    good = failed and refusal["error_code"] and refusal["suggested_action"]
    checks.that(good, f"{name}: a bad token is refused with the right next call", refusal)


def parsed(text):
    return json.loads(text)
