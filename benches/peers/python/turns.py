"""Turns of a client, as standard input asks for them: `{"in_flight": 64, "seconds": 2}` on a line is answered by a line
with what was measured."""

import concurrent.futures
import itertools
import json
import sys
import time

STEPS = 5


def work(at):
    """What a step comes to."""
    return {"summary": "done", "at": at}


def serve(engine, turn):
    """Answers each turn with what `turn(in_flight, seconds)` returns: how long each workflow took."""
    print(json.dumps({"engine": engine}), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        took = sorted(turn(**json.loads(line)))
        lasted = time.perf_counter() - began
        at = lambda share: took[(len(took) - 1) * share // 100]
        print(json.dumps({"workflows": len(took), "seconds": lasted, "p50": at(50), "p99": at(99)}), flush=True)


def threads(run):
    """Turns in which each client is a thread and `run(name)` takes an execution from its start to its end."""
    names = map("execution-{}".format, itertools.count())

    def lane(until):
        took = []
        while not took or time.perf_counter() < until:
            asked = time.perf_counter()
            run(next(names))
            took.append(time.perf_counter() - asked)
        return took

    def turn(in_flight, seconds):
        until = time.perf_counter() + seconds
        with concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
            lanes = [pool.submit(lane, until) for _ in range(in_flight)]
            return [took for each in lanes for took in each.result()]

    return turn
