"""What the engines need, installed once into target/peers. What cannot be installed is left out, with the reason."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "peers"


class Installed:
    """Places by name, and why others are missing."""

    def __init__(self):
        self.places = {"python_scripts": HERE / "python", "node_scripts": TARGET / "node"}
        self.missing = {}

    def attempt(self, name, install):
        try:
            self.places |= install()
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            self.missing[name] = f"not installed: {said[-1] if said else error}"


def install(needed, midex):
    TARGET.mkdir(parents=True, exist_ok=True)
    installed = Installed()
    for name, act in (("rust", rust), ("node", node), ("python", python)):
        if name in needed:
            installed.attempt(name, act)
    installed.attempt("midex", lambda: {"midex": midex.resolve()} if midex else server())
    return installed


def server():
    run("cargo", "build", "--release", "--locked", "--bin", "midex", cwd=ROOT)
    return {"midex": TARGET.parent / "release/midex"}


def rust():
    target = TARGET / "rust"
    # Not `--locked`: Cargo adds what midex has come to need to the lock file; the peers keep their versions.
    run("cargo", "build", "--release", "--manifest-path", HERE / "rust/Cargo.toml", "--target-dir", target)
    return {"rust": target / "release/peers"}


def node():
    place, source = TARGET / "node", HERE / "node"
    pins = [source / "package.json", source / "package-lock.json"]

    def install():
        for pin in pins:
            shutil.copy(pin, place)
        run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=place)

    once(place, pins, install)
    # Packages are looked for beside the program that wants them.
    for script in source.glob("*.mjs"):
        shutil.copy(script, place)
    return {"node": place / "node_modules/node/bin/node"}


def python():
    place, pins = TARGET / "python", HERE / "python/requirements.txt"

    def install():
        run(sys.executable, "-m", "venv", place)
        run(place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", pins)

    once(place, [pins], install)
    return {"python": place / "bin/python"}


def once(place, pins, act):
    """Installs, unless what the pins name is there already."""
    wanted = "".join(pin.read_text() for pin in pins)
    stamp = place / ".installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    act()
    stamp.write_text(wanted)


def run(*command, cwd=None):
    print("installing:", pathlib.Path(command[0]).name, *command[1:3], file=sys.stderr)
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
