"""DBOS with the settings that it has by itself, on SQLite in the directory that the argument names, or on the PostgreSQL of
that address. Each client is a thread."""

import os
import sys

from dbos import DBOS, SetWorkflowID

from turns import STEPS, serve, threads, work

place = sys.argv[1]
database = place if "://" in place else f"sqlite:///{place}/dbos.sqlite"
DBOS(config={"name": "peers", "system_database_url": database, "log_level": "ERROR"})


@DBOS.step()
def step(at):
    return work(at)


@DBOS.workflow()
def chain(steps):
    for at in range(steps):
        last = step(at)
    return last["at"]


def run(name):
    with SetWorkflowID(name):
        last = chain(STEPS)
    if last != STEPS - 1:
        raise RuntimeError(f"its last step was {last}")


DBOS.launch()
serve([os.getpid()], threads(run))
DBOS.destroy()
