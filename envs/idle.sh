#!/usr/bin/env bash
# Fails while this checkout measures. A campaign is locked while a point of it is measured or it is sealed, and the files in *.users until the end of
# Snakemake.
for lock in .storelab/measuring.lock .storelab/*.users/* results/*/; do
    [ ! -e "$lock" ] || flock -n "$lock" true || {
        echo "storelab: $lock is locked: a measurement is running; call \`make $1\` after its end" >&2
        exit 2
    }
done
