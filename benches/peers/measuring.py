"""Turns: an engine at a time, each in every round."""

import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

IN_FLIGHT = (1, 64)
STEPS = 5
# A run ends itself then.
LONGEST_S = 600
# How long an answer may take beyond the turn that is asked for.
PATIENCE_S = 60
TICKS = os.sysconf("SC_CLK_TCK")
STRACE = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o")


class Failed(Exception):
    """Why an engine has no figures."""


class Run:
    """What was measured of whom."""

    def __init__(self, installed, scratch, seconds):
        self.installed, self.scratch, self.seconds = installed, scratch, seconds
        self.began, self.notes = time.monotonic(), []
        scene = scratch / "scene"
        scene.mkdir()
        steps = "".join(f"  - {{ id: step-{at}, guidance: Work., result: {{}} }}\n" for at in range(STEPS))
        (scene / "chain.yaml").write_text(f"workflow: chain\ndescription: Measured\nsteps:\n{steps}")
        self.places = {**installed.places, "scene": scene}

    def measure(self, engines, rounds):
        """Figures by engine and level, a list of rounds each; or why there are none."""
        results = {engine: {level: [] for level in IN_FLIGHT} for engine in engines}
        failures = {engine: self.installed.missing[need] for engine in engines for need in needs(engine) if need in self.installed.missing}
        acts = [self.round] * rounds + ([self.count_syncs] if shutil.which("strace") else [])
        if len(acts) == rounds:
            self.notes.append("syncs are not counted: strace is missing")
        for at, act in enumerate(acts):
            longest = (time.monotonic() - self.began) * (at + 1) / max(at, 1)
            if act == self.round and at and longest > LONGEST_S * 0.9:
                self.notes.append(f"{at} rounds of {rounds}: more would have taken longer than {LONGEST_S} s")
                acts[at + 1 : rounds] = []
                continue
            for engine in engines:
                if engine not in failures:
                    try:
                        act(engine, results[engine])
                    except Failed as failure:
                        if act == self.round:
                            failures[engine] = f"failed: {failure}"
                        else:
                            self.notes.append(f"the syncs of {engine.title} are not counted: {failure}")
        return {engine: failures.get(engine) or results[engine] for engine in engines}

    def round(self, engine, figures):
        with Process(engine, self.places, self.scratch) as process:
            process.turn(IN_FLIGHT[-1], self.seconds / 4)
            for level in IN_FLIGHT:
                figures[level].append(process.turn(level, self.seconds))

    def count_syncs(self, engine, figures):
        trace = self.scratch / "trace"
        with Process(engine, self.places, self.scratch, (*STRACE, trace)) as process:
            for level in IN_FLIGHT:
                before = syncs(trace)
                turn = process.turn(level, min(self.seconds, 1))
                counted = (syncs(trace) - before) / (turn["workflows"] * STEPS)
                for figure in figures[level]:
                    figure["syncs"] = counted


def needs(engine):
    return (engine.needs, "midex") if "{midex}" in engine.command else (engine.needs,)


def syncs(trace):
    """The calls that strace wrote down; one that was interrupted by another's line is written twice."""
    with open(trace) as lines:
        return sum("sync" in line and "resumed>" not in line for line in lines)


class Process:
    """An engine on an empty directory, with its client."""

    def __init__(self, engine, places, scratch, before=()):
        self.data = scratch / "data"
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir()
        words = [str(word).format(**places, data=self.data) for word in engine.command]
        self.errors = open(scratch / "errors", "w+")
        # A group of its own: whatever it starts ends with it.
        self.process = subprocess.Popen([*before, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        bufsize=0, start_new_session=True, cwd=self.data,
                                        env=os.environ | {"XDG_CONFIG_HOME": str(self.data), "PYTHONDONTWRITEBYTECODE": "1"})

    def __enter__(self):
        try:
            self.engine = self.answer(PATIENCE_S)["engine"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.errors.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def answer(self, patience):
        until, line, ready = time.monotonic() + patience, b"log", True
        # Some write their log there.
        while ready and line and not line.startswith(b"{"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
            line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()
        why = said[-1][:200] if said else "it said nothing"
        raise Failed(why if ready else f"no answer within {patience:.0f} s")

    def turn(self, in_flight, seconds):
        """What each step took and cost, of so many executions in flight."""
        try:
            return self.measured(in_flight, seconds)
        except OSError as error:
            raise Failed(f"it ended: {error}") from error

    def measured(self, in_flight, seconds):
        before = self.cpu()
        self.process.stdin.write(json.dumps({"in_flight": in_flight, "seconds": seconds}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.answer(seconds + PATIENCE_S)
        steps = answer["workflows"] * STEPS
        engine, client = (1e6 * (after - earlier) / steps for after, earlier in zip(self.cpu(), before))
        return {
            "workflows": answer["workflows"], "rate": steps / answer["seconds"],
            "p50_ms": 1e3 * answer["p50"] / STEPS, "p99_ms": 1e3 * answer["p99"] / STEPS,
            "engine_cpu_us": engine, "client_cpu_us": client, "rss_mib": sum(map(rss, self.engine)) / 1024,
        }

    def cpu(self):
        """Processor seconds of the engine, and of its client where that is another process."""
        client = [self.process.pid] if self.process.pid not in self.engine else []
        return [sum(map(cpu, pids)) for pids in (self.engine, client)]


def cpu(pid):
    """`utime` and `stime`, which stand behind the name of the program: proc_pid_stat(5)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss(pid):
    """In KiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
