#!/usr/bin/env bash
# `make setup`: creates .venv from the hash-pinned lock file, and builds storelab's own Go programs. It needs Python >= 3.11 (another one:
# PYTHON=…), but not root. If the Go programs cannot be built, everything works except the calibration and the engine loadgen.
# `setup.sh environment` does not build the Go programs, which `make demo` and `make lab` do not need. `setup.sh dev` adds the tools for
# developers (envs/dev.lock), for `make test` and `make lint`.
# A project folder (`storelab init`) does not contain the package. There, it uses the installed storelab to build the programs.
set -euo pipefail
cd "$(dirname "$0")/.."
asked() { [[ " $parts " == *" $1 "* ]]; }
parts="$*"
if [ ! -e pyproject.toml ]; then
    command -v storelab >/dev/null || {
        echo "storelab: not found in this shell; activate the environment in which it is installed" >&2
        exit 2
    }
    asked environment && exit 0
    storelab install --dry-run loadgen 2>&1 | grep -q ": already installed$" || storelab install loadgen ||
        echo "storelab: the Go programs are not built, so campaigns need \`calibrate: false\`" >&2
    exit 0
fi
# Prefer Debian's Python if it is new enough and can create environments. Its build is optimised: tests and papers take a seventh less time
# than with a Python built by pyenv.
python=python3
/usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && python=/usr/bin/python3
python=${PYTHON:-$python}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "storelab: $python is missing or older than 3.11; choose another one: make setup PYTHON=python3.11" >&2
    exit 2
}
environment() {
    local wanted place uv
    wanted=$(cat envs/requirements.lock pyproject.toml | sha256sum | cut -c1-32)
    place=$(sed -n 2p .venv/storelab-lock 2>/dev/null || true)
    # Programs in .venv/bin contain the path of .venv. Another path to the same folder, such as a link, still works.
    if [ -n "$place" ] && [ ! "$place" -ef .venv ]; then
        envs/idle.sh setup || exit 2
        echo "setup: the checkout was moved or copied; .venv is made again"
        rm -rf .venv
    fi
    [ -n "$place" ] && [ "$(sed -n 1p .venv/storelab-lock 2>/dev/null)" = "$wanted" ] && return
    [ ! -e .venv/storelab-lock ] || envs/idle.sh setup || exit 2 # clients would start with other versions
    echo "setup: .venv from envs/requirements.lock (about 300 MB to download once)"
    if [ ! -x .venv/bin/python ]; then
        # Debian has the module venv in a separate package.
        "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; envs/apt.sh python3-venv && "$python" -m venv .venv; } || {
            echo "storelab: $python cannot create virtual environments; install the package python3-venv" >&2
            exit 2
        }
    fi
    uv=$(awk '/^uv==/,!/\\$/' envs/requirements.lock)
    .venv/bin/uv --version >/dev/null 2>&1 || printf '%s\n' "$uv" | .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r /dev/stdin
    rm -f .venv/storelab-dev # because the next line removes the tools for developers
    .venv/bin/uv pip sync --quiet --compile-bytecode --require-hashes envs/requirements.lock --python .venv/bin/python
    .venv/bin/uv pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python -e . -e src/readplan
    relative
    .venv/bin/python -c 'import storelab' || {
        echo "storelab: the environment .venv does not work in this folder; move the checkout, or report the lines above" >&2
        exit 2
    }
    .venv/bin/python -m compileall -q src || true
    printf '%s\n' "$wanted" "$PWD/.venv" >.venv/storelab-lock
    echo "setup: done; in each shell: source .venv/bin/activate"
}

development() {
    local wanted
    wanted=$(cat envs/requirements.lock envs/dev.lock pyproject.toml | sha256sum | cut -c1-32)
    [ "$(cat .venv/storelab-dev 2>/dev/null)" = "$wanted" ] && return
    echo "setup: tools for developers from envs/dev.lock (about 20 MB to download once)"
    .venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r envs/dev.lock --python .venv/bin/python
    echo "$wanted" > .venv/storelab-dev
}

# Python reads the .pth files that point to `src` in the encoding of the locale, and fails if the path has characters outside of it.
# Therefore the files contain a relative path, without the name of the checkout. They are written only once, because
# the checkout may belong to another user.
relative() {
    local file
    for file in .venv/lib/python3*/site-packages/_{editable_impl_storelab,readplan}.pth; do
        [ ! -e "$file" ] || [ "$(cat "$file")" = ../../../../src ] || echo ../../../../src >"$file"
    done
}

# The programs are in the user's tools folder, where another checkout may have installed its own version; storelab compares them. After a
# failed build, the next attempt is made when the sources have changed.
loadgen() {
    local sources output
    [ -d loadgen ] || return 0
    output=$(.venv/bin/storelab install --dry-run loadgen 2>&1) && [[ $output == *": already installed" ]] && return
    sources=$(find loadgen -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-32)
    [ "$(cat .venv/storelab-loadgen-failed 2>/dev/null)" = "$sources" ] && return
    echo "setup: storelab's own Go programs (85 MB to download once, a minute to build)"
    output=$(.venv/bin/storelab install loadgen 2>&1) && rm -f .venv/storelab-loadgen-failed && return
    echo "storelab: the Go programs were not built; set \`calibrate: false\` in campaigns, or try \`storelab install loadgen\`: $(tail -n 1 <<<"$output")" >&2
    echo "$sources" 2>/dev/null > .venv/storelab-loadgen-failed || true # the checkout may belong to another user
}

environment
relative
if asked dev; then development; fi
asked environment || loadgen
