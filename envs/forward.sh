#!/usr/bin/env bash
# Runs a command; $OTHERWISE where its status is 1; and $AFTER, whatever became of it. SIGTERM, SIGHUP and Ctrl-C that reach this shell reach the
# command and all that it started.
set -m # a process group of its own
child= after=${AFTER:-} otherwise=${OTHERWISE:-}
unset AFTER OTHERWISE
forward() { [ -z "$child" ] || kill "-$1" -- "-$child" 2>/dev/null; }
trap 'forward TERM' TERM
trap 'forward HUP' HUP
trap 'forward INT' INT
run() {
    "$@" </dev/null &
    child=$!
    while true; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break # else a signal ended the waiting, not the command
    done
}
run "$@"
ended=$status
[ "$ended" -ne 1 ] || [ -z "$otherwise" ] || run bash -c "$otherwise"
[ -z "$after" ] || bash -c "$after"
exit "$ended"
