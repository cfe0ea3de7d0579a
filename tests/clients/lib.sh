# What `run` and `../conformance/run` share: where the clients lie, how they get there, how a server is started.
# Sourced by scripts that stand in the repository's root, with `set -euo pipefail`.

clients_dir=${MIDEX_CLIENTS_DIR:-${CARGO_TARGET_DIR:-$PWD/target}/clients}
node="$clients_dir/node/node_modules/node/bin/node"
modules="$clients_dir/node/node_modules"

say() { printf '%s\n' "$*" >&2; }

# need COMMAND WHY: ends the script where it is missing.
need() {
  command -v "$1" > /dev/null || { say "$1 is missing: $2"; exit 1; }
}

# once DIR WANTED COMMAND...: runs the command, unless DIR holds what WANTED describes already.
once() {
  local dir=$1 wanted=$2
  shift 2
  [[ -f $dir/.installed && $(< "$dir/.installed") == "$wanted" ]] && return
  say "installing into $dir"
  rm -rf "$dir"
  mkdir -p "$dir"
  "$@"
  printf '%s' "$wanted" > "$dir/.installed"
}

install_node() {
  need npm 'it installs the conformance suite and the JavaScript clients'
  local manifest=tests/clients/package.json
  once "$clients_dir/node" "$(< $manifest)" npm_install
}

npm_install() {
  cp tests/clients/package.json "$clients_dir/node/"
  (cd "$clients_dir/node" && npm install --no-package-lock --no-audit --no-fund --loglevel=error >&2)
  "$node" --version > /dev/null || { say "npm did not install a Node that runs"; exit 1; }
}

# install_python NAME VERSION: the official SDK in an environment of its own.
install_python() {
  need python3 'it runs the Python clients; the package that brings its module venv is needed too'
  once "$clients_dir/$1" "mcp==$2" pip_install "$1" "$2"
}

pip_install() {
  python3 -m venv "$clients_dir/$1"
  "$clients_dir/$1/bin/pip" install --quiet --disable-pip-version-check "mcp==$2" >&2
}

# The directory that everything of this run is in, and whatever was started in the background, both gone when it ends.
scratch=$(mktemp -d)
clean_up() {
  local running
  running=$(jobs -pr)
  # Each is a word: a process of this run that has not ended.
  [[ -z $running ]] || kill $running 2> /dev/null || true
  wait
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# serve LOG COMMAND...: starts a server and leaves the endpoint that it prints in $endpoint.
serve() {
  local log=$1
  shift
  "$@" > "$log" 2>&1 < /dev/null &
  local pid=$!
  for _ in {1..400}; do
    if endpoint=$(grep -om1 'http://127\.0\.0\.1:[0-9]*/mcp' "$log"); then return; fi
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.05
  done
  say "the server did not say where it listens; it said:"
  cat "$log" >&2
  exit 1
}

# A workflow of two steps and the agent that does them, away from whatever the user or the project has.
make_scene() {
  mkdir -p "$scratch/workflows" "$scratch/agents" "$scratch/data" "$scratch/config"
  export XDG_CONFIG_HOME=$scratch/config
  cat > "$scratch/workflows/two-steps.md" << 'END'
---
name: two-steps
description: One thing, then another
phases:
  - phase: first
    agent: worker
    description: Do the one thing
  - phase: second
    agent: worker
    description: Do the other
    dependsOn: [first]
---

# Two steps

First the one thing, then the other.
END
  cat > "$scratch/agents/worker.md" << 'END'
---
name: worker
description: Does what there is to do
---

# Worker

You do what the step says, and say what you did.
END
}

# midex_serve NAME FLAG...: arguments that serve the scene with a store of its own.
midex_serve() {
  local name=$1
  shift
  echo serve --data-dir "$scratch/data/$name" --workflows "$scratch/workflows" --agents "$scratch/agents" "$@"
}
