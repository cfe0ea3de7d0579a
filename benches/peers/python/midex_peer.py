"""midex as a server over standard streams, with a client in Python: all calls are on one pair of streams."""

import itertools
import json
import subprocess
import sys
import time

from turns import STEPS, serve, work

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
ids = itertools.count(1)


def send(message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def call(name, arguments):
    """Asks, and returns the id of the answer."""
    at = next(ids)
    send({"id": at, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
    return at


def answer():
    """The next answer with its id; other messages do not count."""
    while True:
        line = server.stdout.readline()
        if not line:
            raise RuntimeError("the server went away")
        message = json.loads(line)
        if "id" not in message:
            continue
        result = message.get("result", {}).get("structuredContent", {})
        if not result.get("success"):
            raise RuntimeError(line[:300])
        return message["id"], result


def turn(in_flight, seconds):
    until = time.perf_counter() + seconds
    took, open_calls = [], {}

    def start():
        asked = time.perf_counter()
        open_calls[call("workflow.start", {"workflow_name": "chain"})] = (asked, 0)

    for _ in range(in_flight):
        start()
    while open_calls:
        at, result = answer()
        asked, steps = open_calls.pop(at)
        if token := result.get("new_token"):
            following = call("workflow.next_step", {"token": token, "output": work(steps)})
            open_calls[following] = (asked, steps + 1)
        elif result["workflow_state"] != "completed" or steps != STEPS:
            raise RuntimeError(f"it is {result['workflow_state']} after {steps} steps")
        else:
            took.append(time.perf_counter() - asked)
            if time.perf_counter() < until:
                start()
    return took


client = {"name": "peers", "version": "0"}
params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
send({"id": 0, "method": "initialize", "params": params})
server.stdout.readline()
send({"method": "notifications/initialized"})
serve([server.pid], turn)
server.kill()
