# How does a checkout get what it needs? Sourced by the commands beside it; changes to the root.
#
# Each function makes sure of one thing and returns quickly when it is there already: a stamp beside
# the result remembers from which files it was made. Long steps show how long they have been at it.

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
VENV="$ROOT/.venv"
CONSOLE="$ROOT/control_plane/console"

# fail SENTENCE [WAYS]: an operator's mistake ends a command with status 2.
fail() {
  printf '%s\n' "$1" >&2
  [ $# -lt 2 ] || printf 'Try: %s\n' "$2" >&2
  exit 2
}

# step WHAT COMMAND…: run it quietly, tell the seconds now and then, show its end if it fails.
step() {
  local what=$1 log started pid waited=0
  shift
  log=$(mktemp)
  started=$(date +%s)
  printf '%s …\n' "$what" >&2
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null || true' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if [ $((waited % 50)) -eq 0 ]; then
      printf '  … %s s\n' "$(($(date +%s) - started))" >&2
    fi
  done
  trap - INT TERM
  if ! wait "$pid"; then
    tail -n 25 "$log" >&2
    rm -f "$log"
    fail "$what failed; its last lines are above."
  fi
  rm -f "$log"
}

# is_stamped FILE TEXT: true if FILE says that it was made from TEXT.
is_stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  fail "Greenroom needs Python 3.11 or newer, and none is on PATH." \
    "apt-get install python3 python3-venv, or name one with PYTHON=/path/to/python3"
}

# need_packages [EXTRA]: .venv with the package itself and, for tests, the extra 'dev'.
need_packages() {
  local extra=${1:-} python made_from
  made_from=$(sha256sum pyproject.toml | cut -d' ' -f1)
  if is_stamped "$VENV/.greenroom-dev" "$made_from"; then return; fi
  if [ -z "$extra" ] && is_stamped "$VENV/.greenroom-base" "$made_from"; then return; fi
  if [ ! -x "$VENV/bin/python" ]; then
    python=$(find_python)
    "$python" -c 'import ensurepip' 2>/dev/null ||
      fail "This Python ($python) can't make virtual environments." \
        "apt-get install python3-venv, or name another one with PYTHON=/path/to/python3"
    step "Making .venv" "$python" -m venv "$VENV"
  fi
  step "Installing Python packages (once; about a minute)" \
    "$VENV/bin/python" -m pip install --disable-pip-version-check -e ".${extra:+[$extra]}"
  printf '%s' "$made_from" >"$VENV/.greenroom-${extra:-base}"
}

# has_torch: true if the extra 'gpu' is in .venv.
has_torch() {
  "$VENV/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'
}

# need_torch: the extra 'gpu'. PyPI's torch is built for CUDA and runs on the processor as well.
need_torch() {
  if has_torch; then return; fi
  step "Installing torch (once; a minute or two, about 5 GB)" \
    "$VENV/bin/python" -m pip install --disable-pip-version-check -e ".[gpu]"
}

# can_build_page: true if Node 20 or newer and npm are there.
can_build_page() {
  command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 &&
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)'
}

# need_page: the page's own packages and its built files.
need_page() {
  local packages sources
  packages=$(sha256sum "$CONSOLE/package-lock.json" | cut -d' ' -f1)
  sources=$(cd "$CONSOLE" && find . \( -name node_modules -o -name dist \) -prune -o -type f -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
  if [ -f "$CONSOLE/dist/index.html" ] && is_stamped "$CONSOLE/dist/.made-from" "$sources"; then
    return
  fi
  can_build_page ||
    fail "The page needs Node.js 20 or newer with npm to be built, and there is none on PATH." \
      "your distribution's nodejs and npm if they are new enough, nvm install 20, or an archive from nodejs.org"
  need_page_packages "$packages"
  step "Building the page" npm --prefix "$CONSOLE" run build
  printf '%s' "$sources" >"$CONSOLE/dist/.made-from"
}

# need_page_packages [STAMP]: node_modules as package-lock.json says.
need_page_packages() {
  local packages=${1:-$(sha256sum "$CONSOLE/package-lock.json" | cut -d' ' -f1)}
  if is_stamped "$CONSOLE/node_modules/.made-from" "$packages"; then return; fi
  step "Installing the page's packages (once)" npm --prefix "$CONSOLE" ci --no-audit --no-fund
  printf '%s' "$packages" >"$CONSOLE/node_modules/.made-from"
}

# need_debian COMMAND PACKAGE: true once COMMAND is there; installs PACKAGE as root on Debian.
need_debian() {
  if command -v "$1" >/dev/null 2>&1; then return 0; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then return 1; fi
  if [ -z "${DEBIAN_LISTS_ARE_NEW:-}" ]; then
    DEBIAN_LISTS_ARE_NEW=yes
    (step "Reading Debian's package lists" apt-get update -q) || return 1
  fi
  (DEBIAN_FRONTEND=noninteractive step "Installing $2" apt-get install -q -y --no-install-recommends "$2") ||
    return 1
  command -v "$1" >/dev/null 2>&1
}
