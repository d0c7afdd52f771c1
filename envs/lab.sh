#!/usr/bin/env bash
# `make lab`: opens the notebooks in JupyterLab, only for this machine, protected by a token. JupyterLab is an extra of the package. It is
# installed at the first call. Arguments are passed to JupyterLab: envs/lab.sh --no-browser
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -e pyproject.toml ] && [ ! -x .venv/bin/jupyter-lab ]; then
    echo "setup: JupyterLab from envs/lab.lock (about 20 MB to download once)"
    .venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r envs/lab.lock --python .venv/bin/python || {
        echo "storelab: JupyterLab could not be installed; \`make notebooks\` works without it" >&2
        exit 2
    }
fi
command -v jupyter-lab >/dev/null || {
    echo "storelab: JupyterLab is not found in this shell; install it in storelab's environment: pip install jupyterlab ipywidgets" >&2
    exit 2
}
root=()
[ "$(id -u)" != 0 ] || root=(--allow-root)
exec jupyter-lab --ServerApp.ip=127.0.0.1 "${root[@]}" "$@" notebooks
