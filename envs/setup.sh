#!/usr/bin/env bash
# `make setup`: makes .venv from the hash-pinned lock file, and builds storelab's own Go programs. Needs Python >= 3.11 (PYTHON=… names
# another), but not root. If Go cannot build, everything works except the calibration and the engine loadgen.
# `setup.sh environment` leaves the Go programs for later: `make demo` and `make lab` need none. `setup.sh dev` adds the tools of
# developers (envs/dev.lock), for `make test` and `make lint`.
# In a project folder (`storelab init`), which has no package, it looks for the storelab that is installed, and builds the programs.
set -euo pipefail
cd "$(dirname "$0")/.."
asked() { [[ " $parts " == *" $1 "* ]]; }
parts="$*"
if [ ! -e pyproject.toml ]; then
    command -v storelab >/dev/null || {
        echo "storelab: is not found in this shell; activate the environment that it is installed in" >&2
        exit 2
    }
    asked environment && exit 0
    storelab install --dry-run loadgen 2>&1 | grep -q ": is there$" || storelab install loadgen ||
        echo "storelab: its programs in Go are not built, so campaigns need \`calibrate: false\`" >&2
    exit 0
fi
# Debian's own Python comes first where it is new enough and can make environments: built for speed, it runs tests and papers in a
# seventh less time than one that pyenv has built.
python=python3
/usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && python=/usr/bin/python3
python=${PYTHON:-$python}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "storelab: $python is missing or older than 3.11; name another with: make setup PYTHON=python3.11" >&2
    exit 2
}
environment() {
    local wanted uv
    wanted=$(cat envs/requirements.lock pyproject.toml | sha256sum | cut -c1-32)
    [ "$(cat .venv/storelab-lock 2>/dev/null)" = "$wanted" ] && return
    echo "setup: .venv from envs/requirements.lock (about 300 MB to download once)"
    if [ ! -x .venv/bin/python ]; then
        # Debian has the module that makes environments with pip in a separate package.
        "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; envs/apt.sh python3-venv && "$python" -m venv .venv; } || {
            echo "storelab: $python cannot make virtual environments; install the package python3-venv" >&2
            exit 2
        }
    fi
    uv=$(awk '/^uv==/,!/\\$/' envs/requirements.lock)
    .venv/bin/uv --version >/dev/null 2>&1 || printf '%s\n' "$uv" | .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r /dev/stdin
    rm -f .venv/storelab-dev # goes with what the next line removes
    .venv/bin/uv pip sync --quiet --compile-bytecode --require-hashes envs/requirements.lock --python .venv/bin/python
    .venv/bin/uv pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python -e .
    relative
    .venv/bin/python -c 'import storelab' || {
        echo "storelab: the environment .venv does not work in this folder; move the checkout, or report the lines above" >&2
        exit 2
    }
    .venv/bin/python -m compileall -q src || true
    echo "$wanted" > .venv/storelab-lock
    echo "setup: done; in each shell: source .venv/bin/activate"
}

development() {
    local wanted
    wanted=$(cat envs/requirements.lock envs/dev.lock pyproject.toml | sha256sum | cut -c1-32)
    [ "$(cat .venv/storelab-dev 2>/dev/null)" = "$wanted" ] && return
    echo "setup: the tools of developers from envs/dev.lock (about 20 MB to download once)"
    .venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r envs/dev.lock --python .venv/bin/python
    echo "$wanted" > .venv/storelab-dev
}

# Python reads the file that leads to `src` in the encoding of the locale, and dies of letters that this does not have. So the file
# leads there from its own place, without the name of the checkout.
relative() {
    local file
    for file in .venv/lib/python3*/site-packages/_editable_impl_storelab.pth; do
        if [ -e "$file" ]; then echo ../../../../src >"$file"; fi
    done
}

# They lie in the user's tools folder, where another checkout may have put its own: storelab compares. What could not be built is
# tried again when its sources change.
loadgen() {
    local sources said
    [ -d loadgen ] || return 0
    said=$(.venv/bin/storelab install --dry-run loadgen 2>&1) && [[ $said == *": is there" ]] && return
    sources=$(find loadgen -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-32)
    [ "$(cat .venv/storelab-loadgen-failed 2>/dev/null)" = "$sources" ] && return
    echo "setup: storelab's own programs in Go (85 MB to download once, a minute to build)"
    said=$(.venv/bin/storelab install loadgen 2>&1) && rm -f .venv/storelab-loadgen-failed && return
    echo "storelab: not built, so campaigns need \`calibrate: false\`, or \`storelab install loadgen\`: $(tail -n 1 <<<"$said")" >&2
    echo "$sources" > .venv/storelab-loadgen-failed
}

environment
relative
if asked dev; then development; fi
asked environment || loadgen
