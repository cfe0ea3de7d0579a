"""What is measured: how each engine is started, beside which midex it stands, and what it promises."""

import dataclasses

FLUSHED = "each step is flushed to the disk before its answer"
NOT_FLUSHED = "the last steps may be lost: they are flushed later"


@dataclasses.dataclass(frozen=True)
class Engine:
    name: str
    title: str
    # What of the installation it is made of: python, node or rust.
    needs: str
    # The command, in which {…} are places of the installation and the directory of its data.
    command: tuple
    # Which midex it is measured beside; none for midex itself.
    beside: tuple
    # What is left after a loss of power.
    promise: str


LIBRARY = ("midex-library",)
SERVE = ("{midex}", "serve", "--data-dir", "{data}/midex", "--workflows", "{scene}", "--agents", "{scene}")

ALL = (
    Engine("midex-library", "midex, library (Rust)", "rust", ("{rust}", "midex", "{data}"), (), FLUSHED),
    Engine("durare", "durare 0.5.0, SQLite (Rust)", "rust", ("{rust}", "durare", "{data}"), LIBRARY,
           NOT_FLUSHED + " (WAL, synchronous = NORMAL)"),
    Engine("durare-full", "durare 0.5.0, SQLite FULL (Rust)", "rust", ("{rust}", "durare-full", "{data}"), LIBRARY, FLUSHED),
    Engine("duroxide", "duroxide 0.1.32, SQLite (Rust)", "rust", ("{rust}", "duroxide", "{data}"), LIBRARY,
           NOT_FLUSHED + " (WAL, synchronous = NORMAL)"),
    Engine("cano", "cano 0.15.2, redb (Rust)", "rust", ("{rust}", "cano", "{data}"), LIBRARY,
           "which step is next is flushed; what steps came to is not kept"),
    Engine("midex-http", "midex, HTTP, client in Node", "node", ("{node}", "{node_scripts}/midex.mjs", "http", *SERVE), (), FLUSHED),
    Engine("midex-lines", "midex, stdio, client in Node", "node", ("{node}", "{node_scripts}/midex.mjs", "lines", *SERVE), (), FLUSHED),
    Engine("restate", "Restate 1.7.12, service and client in Node", "node",
           ("{node}", "{node_scripts}/restate.mjs", "{data}"), ("midex-http", "midex-lines"), "each step is flushed, several together"),
    Engine("midex-python", "midex, stdio, client in Python", "python", ("{python}", "{python_scripts}/midex_peer.py", *SERVE), (), FLUSHED),
    Engine("dbos", "DBOS 3.4.0, SQLite (Python)", "python", ("{python}", "{python_scripts}/dbos_peer.py", "{data}"),
           ("midex-python",), FLUSHED),
    Engine("langgraph", "LangGraph 1.2.22, SqliteSaver (Python)", "python",
           ("{python}", "{python_scripts}/langgraph_peer.py", "{data}"), ("midex-python",), FLUSHED),
)
