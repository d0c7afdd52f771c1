#!/usr/bin/env bash
# Runs a command, and $AFTER behind it, whatever became of it. SIGTERM, SIGHUP and Ctrl-C that reach this shell reach the
# command and all that it started.
set -m # a process group of its own
child= after=${AFTER:-}
unset AFTER
forward() { [ -z "$child" ] || kill "-$1" -- "-$child" 2>/dev/null; }
trap 'forward TERM' TERM
trap 'forward HUP' HUP
trap 'forward INT' INT
"$@" </dev/null &
child=$!
while true; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null || break # else a signal ended the waiting, not the command
done
[ -z "$after" ] || bash -c "$after"
exit "$status"
