#!/usr/bin/env bash
# `make lab`: opens the notebooks in JupyterLab, on this machine alone, behind a token. JupyterLab is an extra of the package: it is installed
# when it is asked for first. Further arguments are JupyterLab's own: envs/lab.sh --no-browser
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -e pyproject.toml ] && [ ! -x .venv/bin/jupyter-lab ]; then
    echo "setup: JupyterLab from envs/lab.lock (about 20 MB to download once)"
    .venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r envs/lab.lock --python .venv/bin/python || {
        echo "storelab: JupyterLab could not be installed; without it: make notebooks" >&2
        exit 2
    }
fi
command -v jupyter-lab >/dev/null || {
    echo "storelab: JupyterLab is not found in this shell; in the environment that storelab is installed in: pip install jupyterlab ipywidgets" >&2
    exit 2
}
root=()
[ "$(id -u)" != 0 ] || root=(--allow-root)
exec jupyter-lab --ServerApp.ip=127.0.0.1 "${root[@]}" "$@" notebooks
