#!/usr/bin/env bash
# Installs Debian packages as root or with sudo. Without both, it prints one line and exits with 2.
set -euo pipefail
missing=()
for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ]; then sudo=(); elif sudo -n true 2>/dev/null; then sudo=(sudo -n); else
    echo "storelab: root or sudo is missing; as root, run: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
fi
command -v apt-get >/dev/null || { echo "storelab: apt-get is missing; install by other means: ${missing[*]}" >&2; exit 2; }
echo "setup: Debian packages ${missing[*]}"
install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o Acquire::Retries=3 --no-install-recommends "${missing[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${install[@]}" >"$log" 2>&1 || { "${sudo[@]}" apt-get update -q -o Acquire::Retries=3 >"$log" 2>&1 && "${install[@]}" >"$log" 2>&1; } || {
    tail -n 5 "$log" >&2
    echo "storelab: the packages could not be installed: ${missing[*]}" >&2
    exit 2
}
