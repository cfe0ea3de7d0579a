"""The pictures and tables of docs/performance.md, made of the JSON files beside this one."""

import json
import pathlib
import re

import charts

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "performance.md"
# Measures of `midex bench`: title, and how many of its unit one of the title is.
MEASURES = {"rate": ("1/s", 1), "p50": ("p50 ms", 1000), "p99": ("p99 ms", 1000), "cpu": ("CPU µs", 1), "writes": ("writes", 1),
            "syncs": ("syncs", 1), "rss": ("RSS KiB", 1), "private": ("private KiB", 1), "live": ("awake KiB", 1), "asleep": ("asleep KiB", 1)}
PROBE = "fdatasync"


def write():
    """Draws what there is, and renews the page."""
    text = PAGE.read_text()
    for name, make in (("bench", bench), ("stored", stored), ("peers", peers)):
        for place, content in make().items():
            text, found = re.subn(rf"(<!-- {place} -->\n).*?(<!-- end -->)", lambda match: match[1] + content + match[2], text, flags=re.S)
            if not found:
                raise SystemExit(f"{PAGE.name} has no place for `{place}`")
    PAGE.write_text(text)


def bench():
    """What `midex bench` measured in one run."""
    run = load("bench")
    figures = by_group(run)
    transitions, calls = figures.get("transitions", []), figures.get("workflow.next_step", [])
    names = list(dict.fromkeys(figure["name"] for figure in transitions))
    draw("rate", charts.lines("Durable transitions in a second", "executions in flight", "transitions/s", [
        charts.Series(name, over(transitions, name, "rate"), at) for at, name in enumerate(names)]))
    # SQLite has one caller, whatever is in flight.
    shown = [name for name in names if not name.startswith("SQLite")]
    draw("latency", charts.lines("How long a transition takes", "executions in flight", "ms; whole lines: half of all, dashed: 99 of 100", [
        charts.Series(f"{name}, {measure}", over(transitions, name, measure, 1000), names.index(name), measure == "p99")
        for name in shown for measure in ("p50", "p99")]))
    levels = sorted({figure["in_flight"] for figure in calls})
    draw("cpu", charts.bars("Processor time of a call of workflow.next_step", "µs, of the server; in this process with its clients", [
        (f"{level} in flight", [bar(figure, "cpu") for figure in calls if figure["in_flight"] == level and figure["name"] != PROBE])
        for level in levels]))
    shown = {group: members for group, members in figures.items() if group != "stored"}
    return {"machine": machine(run), **{f"table {group}": table(members) for group, members in shown.items()}}


def stored():
    """What `midex bench --only stored` measured with different numbers of stored executions."""
    runs = sorted((json.loads(path.read_text()) for path in HERE.glob("stored-*.json")), key=lambda run: run["stored"])
    levels = sorted({figure["in_flight"] for run in runs for figure in run["figures"]})
    points = {(level, name): [(run["stored"], cost(run, level, name)) for run in runs] for level in levels for name in ("new file", "many stored")}
    draw("stored", charts.lines("Processor time of a transition in a file that holds many executions", "executions stored", "µs; dashed: a new file, in the same run", [
        charts.Series(f"{name}, {level} in flight", points[level, name], at + 1, name == "new file")
        for at, level in enumerate(levels) for name in ("many stored", "new file")], from_zero=True))
    rows = [["stored", *(f"{level} in flight" for level in levels)]]
    for run in runs:
        ratios = [time(run, level, "many stored") / time(run, level, "new file") for level in levels]
        rows.append([f"{run['stored']:,}", *(f"{ratio:.2f}" for ratio in ratios)])
    return {"table stored": markdown(rows)}


def peers():
    """What `benches/peers/run` measured."""
    run = load("peers")
    measured = [engine for engine in run["engines"] if "levels" in engine]
    levels = [level["in_flight"] for level in measured[0]["levels"]]
    median = lambda engine, at: next(level["median"] for level in engine["levels"] if level["in_flight"] == at)
    draw("peers", charts.bars("Durable steps in a second", "logarithmic; a step is a fifth of an execution of five", [
        (f"{at} in flight", [charts.Bar(engine["title"], median(engine, at)["rate"], 0 if engine["beside"] else 1, three_digits(median(engine, at)["rate"]))
                             for engine in measured]) for at in levels], logarithmic=True))
    keys = {"rate": "steps/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "engine_cpu_us": "engine CPU µs", "client_cpu_us": "client CPU µs",
            "rss_mib": "RSS MiB", "syncs": "syncs", "midex_is": "midex is"}
    rows = [["in flight", "", *keys.values()]]
    rows += [[str(at), engine["title"], *(cell(median(engine, at).get(key), key) for key in keys)] for at in levels for engine in measured]
    promises = [["", "after a loss of power"], *([engine["title"], engine.get("failed") or engine["promise"]] for engine in run["engines"])]
    about = f"{run['rounds']} rounds of {run['seconds']:g} s. " + " ".join(note + "." for note in run["notes"])
    return {"table peers": markdown(rows), "promises": markdown(promises), "rounds": about.strip() + "\n"}


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def draw(name, picture):
    (HERE / f"{name}.svg").write_text(picture)


def by_group(run):
    groups = {}
    for figure in run["figures"]:
        groups.setdefault(figure["group"], []).append(figure)
    return groups


def median_of(figure, measure):
    return figure["measures"].get(measure, {}).get("median")


def over(figures, name, measure, divisor=1):
    return [(figure["in_flight"], median_of(figure, measure) / divisor) for figure in figures if figure["name"] == name]


def bar(figure, measure):
    value = median_of(figure, measure)
    return charts.Bar(figure["name"], value, 1 if figure["name"].startswith("engine") else 2, three_digits(value))


def of_stored(run, level, name):
    return next(figure for figure in run["figures"] if (figure["in_flight"], figure["name"]) == (level, name))


def cost(run, level, name):
    return median_of(of_stored(run, level, name), "cpu")


def time(run, level, name):
    """Of a transition; with one in flight that is how long it takes."""
    return 1 / median_of(of_stored(run, level, name), "rate")


def machine(run):
    found = run["machine"]
    note = "".join(f" {note[0].upper()}{note[1:]}." for note in [*run["notes"], run["too_loaded"]] if note)
    return (f"midex {found['midex']} ({found['build']} build), {found['cores']} cores, {found['os']} {found['kernel']} on {found['arch']}; "
            f"load {found['load_before']} before, {found['load_after']} after.{note}\n")


def table(figures):
    keys = [key for key in MEASURES if any(key in figure["measures"] for figure in figures)]
    rows = [["in flight", "", *(MEASURES[key][0] for key in keys)]]
    for figure in figures:
        values = [(median_of(figure, key), MEASURES[key][1]) for key in keys]
        rows.append([str(figure["in_flight"]), figure["name"], *(cell(value and value / unit) for value, unit in values)])
    return markdown(rows)


def cell(value, key=""):
    if key == "midex_is":
        return ", ".join(f"{three_digits(one)} ×" for one in value) or "–"
    if value is None or (value == 0 and key == "client_cpu_us"):
        return "–"
    return three_digits(value)


def three_digits(value):
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def markdown(rows):
    head, *rest = rows
    ruler = ["---" if not title or title == head[0] else "---:" for title in head]
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, ruler, *rest])
