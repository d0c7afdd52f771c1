"""Short commands end with the process that started them, and the bytes that a process moves are known."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

from storelab.engines import s5cmd
from storelab.host import proc, processes


def test_short_command_ends_with_its_parent():
    code = "from storelab.host import processes; processes.run_command(['sleep', '77.5'], 60)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    found = []
    while not found and parent.poll() is None:
        time.sleep(0.02)
        found = [c for c in psutil.Process(parent.pid).children() if "77.5" in c.cmdline()]
    parent.kill()
    parent.wait()
    assert found and not psutil.wait_procs(found, timeout=60)[1]


def test_thread_runs_command_while_logging_is_locked():
    """Ctrl-C between two bytecodes of a fork leaves a lock held; the monitor and its process waited for it forever."""
    code = (
        "import logging, threading\n"
        "from storelab.host import processes\n"
        "logging._acquireLock()\n"
        "asking = threading.Thread(target=processes.run_command, args=[['true']], daemon=True)\n"
        "asking.start()\n"
        "asking.join(20)\n"
        "print('waits' if asking.is_alive() else 'answered', flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "answered\n", done.stderr


def test_moved_bytes_include_writes():
    before = proc.moved_bytes(os.getpid())
    Path("/dev/null").write_bytes(bytes(1_000_000))
    assert proc.moved_bytes(os.getpid()) - before >= 1_000_000
    assert proc.moved_bytes(2**30) == 0
    assert processes.run_command(["true"]).returncode == 0


def test_reason_of_a_go_program_that_crashed():
    """It ends with the places of its goroutines; the last lines of other programs are their reason."""
    stack = ["goroutine 1 [running]:", "main.main()", "\t/src/sync/waitgroup.go:258 +0x1d"]
    for lines, reason in (
        (["a line", "fatal error: out of memory allocating heap arena", "", *stack], "fatal error: out of memory"),
        (["panic: no room", "", *stack], "panic: no room"),
        (["SIGSEGV: segmentation violation", *stack], "SIGSEGV"),
        (["runtime: failed to create new OS thread", *stack], "runtime: failed"),
        (["first", "second", ""], "second"),
        ([], ""),
    ):
        found = processes.why_ended(lines)
        assert found.startswith(reason) and "waitgroup" not in found and (reason or not found)
    assert processes.why_ended(["a", "b", "c", "d"], 3) == "b | c | d"


def test_words_of_a_go_program_that_has_no_memory():
    done = processes.run_command(["bash", "-c", 'ulimit -v 400000; exec "$0" version', s5cmd.binary()])
    assert done.returncode and "memory" in processes.words(done) and "runtime/" not in processes.words(done)


def test_no_process_with_keys_dumps_its_memory():
    """The limit is inherited; a hard limit of 0 stays."""
    code = """
import resource, subprocess, sys
from storelab.host.processes import no_core_dumps
resource.setrlimit(resource.RLIMIT_CORE, (int(sys.argv[1]), int(sys.argv[1])))
no_core_dumps()
print(subprocess.check_output(["sh", "-c", "ulimit -c; grep core /proc/self/limits"], text=True))
"""
    for most, soft in ((0, "0"), (10**6, "1")):
        shown = subprocess.check_output([sys.executable, "-c", code, str(most)], text=True)
        assert re.search(rf"Max core file size +{soft} +{most} ", shown), shown
