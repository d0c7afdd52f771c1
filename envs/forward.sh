#!/usr/bin/env bash
# Runs a command, then $OTHERWISE if the command's status is 1, and $AFTER at the end, except after a mistake (status 2). Forwards SIGTERM, SIGHUP and
# Ctrl-C to the command and to all processes that it started. After a signal, $OTHERWISE does not run; after Ctrl-C, the status is 130.
# Ctrl-C within 15 s after another one is ignored, because it would interrupt the clean-up.
set -m # so that the command has its own process group
child= received= since= after=${AFTER:-} otherwise=${OTHERWISE:-}
unset AFTER OTHERWISE
forward() {
    if [ "$1" = INT ]; then
        [ "$received" != INT ] || [ $((SECONDS - since)) -ge 15 ] || return 0
        since=$SECONDS
    fi
    received=$1
    [ -n "$child" ] && kill "-$1" -- "-$child" 2>/dev/null || return 0
    [ "$1" != INT ] || echo "storelab: stopping; this takes a few seconds" >&2
}
trap 'forward TERM' TERM
trap 'forward HUP' HUP
trap 'forward INT' INT
run() {
    "$@" </dev/null &
    child=$!
    while true; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break # if it still runs, a signal ended only the wait
    done
}
run "$@"
ended=$status
[ "$ended" -ne 1 ] || [ -n "$received" ] || [ -z "$otherwise" ] || run bash -c "$otherwise"
[ "$received" != INT ] || ended=130
[ -z "$after" ] || [ "$ended" -eq 2 ] || bash -c "$after"
exit "$ended"
