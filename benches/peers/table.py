"""The figures of a run: medians of its rounds, and the ratios between what was measured in the same rounds."""

import os
import pathlib
import platform
import statistics

from measuring import IN_FLIGHT

COLUMNS = (
    ("rate", "steps/s"), ("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("engine_cpu_us", "engine CPU µs"),
    ("client_cpu_us", "client CPU µs"), ("rss_mib", "RSS MiB"), ("syncs", "syncs"), ("midex_is", "midex is"),
)


def report(results, notes, rounds, seconds):
    by_name = {engine.name: figures for engine, figures in results.items()}
    load = os.getloadavg()[0]
    if load > 1.5 * os.cpu_count() + 1:
        notes = [*notes, f"too loaded to count: the load was {load:.1f} on {os.cpu_count()} cores at the end"]
    return {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "load_after": load},
        "rounds": rounds, "seconds": seconds, "notes": notes,
        "engines": [entry(engine, figures, [by_name.get(name) for name in engine.beside]) for engine, figures in results.items()],
    }


def entry(engine, figures, beside):
    about = {"name": engine.name, "title": engine.title, "promise": engine.promise, "beside": engine.beside}
    if isinstance(figures, str):
        return about | {"failed": figures}
    return about | {"levels": [level(at, figures[at], beside) for at in IN_FLIGHT]}


def level(in_flight, rounds, beside):
    found = {key: statistics.median(figure[key] for figure in rounds) for key in rounds[0]}
    measured = [midex[in_flight] for midex in beside if isinstance(midex, dict)]
    found["midex_is"] = [statistics.median(map(ratio, midex, rounds)) for midex in measured]
    return {"in_flight": in_flight, "median": found, "rounds": rounds}


def ratio(ours, theirs):
    return ours["rate"] / theirs["rate"]


def text(report):
    machine = report["machine"]
    lines = [f"{machine['cores']} cores, Linux {machine['kernel']}, load {machine['load_after']:.1f} at the end; "
             f"medians of {report['rounds']} rounds of {report['seconds']:g} s"]
    for in_flight in IN_FLIGHT:
        rows = [["in flight", "", *(title for _, title in COLUMNS)]]
        rows += [row(engine, in_flight) for engine in report["engines"] if "levels" in engine]
        lines += ["", *aligned(rows)]
    lines += [""]
    lines += [f"{engine['title']}: {engine['failed']}" for engine in report["engines"] if "failed" in engine]
    lines += ["After a loss of power:"]
    lines += [f"  {engine['title']}: {engine['promise']}" for engine in report["engines"]]
    lines += ["",
              "A step is a fifth of what an execution takes, from its start to its known end. Without a client's CPU, client and engine are",
              "one process. RSS is of the engine. Syncs are counted for each step in a start of its own. `midex is`: so many times the",
              "steps/s of this engine, in the same rounds; beside Rust the library, beside Restate HTTP and stdio, beside Python stdio.", *report["notes"]]
    return "\n".join(lines)


def row(engine, in_flight):
    found = next(level["median"] for level in engine["levels"] if level["in_flight"] == in_flight)
    return [str(in_flight), engine["title"], *(shown(key, found.get(key)) for key, _ in COLUMNS)]


def shown(key, value):
    if not value and key != "syncs" or value is None:
        return "–"
    if key == "midex_is":
        return ", ".join(f"{three_digits(one)}×" for one in value)
    return three_digits(value)


def three_digits(value):
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def aligned(rows):
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    sides = [">", "<", *">" * (len(widths) - 2)]
    return ["  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)).rstrip() for row in rows]
