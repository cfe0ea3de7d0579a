"""LangGraph with its SqliteSaver, which keeps a checkpoint before the next step begins. Each client is a thread."""

import os
import sqlite3
import sys
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from turns import STEPS, serve, threads, work


class State(TypedDict, total=False):
    summary: str
    at: int


def node(at):
    return lambda state: work(at)


def chain():
    names = [f"step-{at}" for at in range(STEPS)]
    graph = StateGraph(State)
    for at, name in enumerate(names):
        graph.add_node(name, node(at))
    for one, other in zip([START, *names], [*names, END]):
        graph.add_edge(one, other)
    connection = sqlite3.connect(f"{sys.argv[1]}/langgraph.sqlite", check_same_thread=False)
    return graph.compile(checkpointer=SqliteSaver(connection))


graph = chain()


def run(name):
    last = graph.invoke({}, {"configurable": {"thread_id": name}}, durability="sync")
    if last["at"] != STEPS - 1:
        raise RuntimeError(f"it ended as {last}")


serve([os.getpid()], threads(run))
