"""A testbed with HTCondor: a pool from a chroot of Debian 13, whose nodes have shaped links. It needs root.

Each host of the pool has its own namespaces for network, host name, mounts, processes and users. The head runs
collector, negotiator and schedd; a node runs one startd with one partitionable slot. Daemons see the chroot, with the
machine's folders at their usual paths and the machine's root at /host. A wrapper moves jobs back to the machine's root,
so that they run its software. HTCondor does not run jobs of root. Therefore root has the name `storelab` in the user
namespace, but still has access to root's files. When the first process of a host ends, all its processes and mounts
end.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from storelab import install
from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.gang.testbed.links import HEAD, Network, Plan, write_hosts
from storelab.gang.testbed.slurm import PLACE, alive, claim, claimed, read, send, started_with
from storelab.host import processes
from storelab.install import chroot

PREFIX = "storelab-pool-"
UP_S, DOWN_S = 60.0, 10.0
CORES, MEMORY_MB = 16, 4000  # each node declares these, although the nodes share the machine
COLLECTOR_PORT = 9618
TOOLS = (
    "condor_submit",
    "condor_q",
    "condor_qedit",
    "condor_rm",
    "condor_hold",
    "condor_release",
    "condor_status",
    "condor_wait",
    "condor_history",
    "condor_transfer_data",
    "condor_config_val",
    "condor_version",
)
# Arguments: the chroot, the path of /etc/hosts, the host name; then HTCondor's environment and command.
# The script runs as root in the namespaces of the host, except for the user namespace.
ENTER = r"""#!/bin/sh
set -e
root=$1 hosts=$2; hostname "$3"; shift 3
mkdir -p "$root/host"
mount --rbind / "$root/host"
for folder in "$root"/host/* "$root"/host/var/tmp; do
    inside=${folder#"$root/host"}
    case $inside in
        /bin | /boot | /etc | /host | /lib* | /lost+found | /proc | /run | /sbin | /sys | /usr | /var) continue ;;
    esac
    [ -d "$folder" ] && [ ! -L "$folder" ] || continue
    mkdir -p "$root$inside"
    mount --rbind "$folder" "$root$inside"
done
for place in "$root" "$root/host"; do
    mount -t proc proc "$place/proc"
    [ -e "$place/etc/hosts" ] || touch "$place/etc/hosts"
    mount --bind "$hosts" "$place/etc/hosts"
done
capability="-all,+sys_chroot"
exec unshare --user --map-user=%(user)d --map-group=%(user)d --keep-caps chroot "$root" \
    setpriv --inh-caps "$capability" --ambient-caps "$capability" env -i "$@"
"""
# This wrapper moves a job from the chroot to the machine's root, and drops the capability that it needs for this.
WRAPPER = """#!/bin/sh
exec /usr/sbin/chroot /host setpriv --inh-caps=-all --ambient-caps=-all /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"""
TOOL = """#!/bin/sh
# storelab: {name} on the head of the pool in {folder}
exec nsenter --target="$(cat {folder}/head/first.pid)" --mount --uts --net --user --preserve-credentials --root \\
    env --chdir="$PWD" CONDOR_CONFIG={folder}/head/condor_config /usr/bin/{name} "$@"
"""


def configuration(folder: Path, name: str, host: str, address: str, daemons: str) -> str:
    """Return the condor_config of one host.

    The pool trusts all processes that can write to the machine's /tmp as root (authentication FS). Other machines
    cannot reach the pool's network.
    """
    local = folder / name
    lines = {
        "LOCAL_DIR": local,
        "LOG": local / "log",
        "SPOOL": local / "spool",
        "EXECUTE": local / "execute",
        "LOCK": local / "lock",
        "RUN": local / "run",
        "RELEASE_DIR": "/usr",
        "BIN": "/usr/bin",
        "SBIN": "/usr/sbin",
        "LIB": "/usr/lib/condor",
        "LIBEXEC": "/usr/libexec/condor",
        "CONDOR_HOST": HEAD,
        "COLLECTOR_HOST": f"{HEAD}:{COLLECTOR_PORT}",
        "NETWORK_INTERFACE": address,
        "NETWORK_HOSTNAME": f"{host}.pool",
        "BIND_ALL_INTERFACES": False,
        "NO_DNS": True,
        "DEFAULT_DOMAIN_NAME": "pool",
        "UID_DOMAIN": "pool",
        "FILESYSTEM_DOMAIN": "pool",
        "TRUST_UID_DOMAIN": True,
        "DAEMON_LIST": f"MASTER {daemons}",
        "SCHEDD_NAME": "head@",
        "SEC_DEFAULT_AUTHENTICATION": "REQUIRED",
        "SEC_DEFAULT_AUTHENTICATION_METHODS": "FS",
        **{f"ALLOW_{what}": "*" for what in ("READ", "WRITE", "DAEMON", "NEGOTIATOR", "ADMINISTRATOR")},
        "USER_JOB_WRAPPER": folder / "job",
        "BASE_CGROUP": "",
        "DISCARD_SESSION_KEYRING_ON_STARTUP": False,
        "RUNBENCHMARKS": 0,
        "NUM_CPUS": CORES,
        "MEMORY": MEMORY_MB,
        "NUM_SLOTS_TYPE_1": 1,
        "SLOT_TYPE_1": "100%",
        "SLOT_TYPE_1_PARTITIONABLE": True,
        "START": True,
        "SUSPEND": False,
        "PREEMPT": False,
        "KILL": False,
        "DedicatedScheduler": '"DedicatedScheduler@head@"',
        "STARTD_ATTRS": "$(STARTD_ATTRS) DedicatedScheduler",
        "RANK": "Scheduler =?= $(DedicatedScheduler)",
        "UNUSED_CLAIM_TIMEOUT": 5,  # s until slots of the parallel universe serve the vanilla universe again
        "NEGOTIATOR_INTERVAL": 2,
        "NEGOTIATOR_CYCLE_DELAY": 2,
        "NEGOTIATOR_MIN_INTERVAL": 1,
        "SCHEDD_INTERVAL": 2,
        "SCHEDD_MIN_INTERVAL": 1,
        "UPDATE_INTERVAL": 5,
        "CLASSAD_LIFETIME": 30,  # s until a dead node leaves the pool
        "PERIODIC_EXPR_INTERVAL": 5,
    }
    return "".join(f"{k} = {v}\n" for k, v in lines.items())


class Pool:
    """An HTCondor pool in `folder`, in its own namespaces."""

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        self.network = Network(self.folder)

    def environ(self) -> dict[str, str]:
        """Return the environment for commands on the head, with HTCondor's commands in PATH."""
        return os.environ | {"PATH": f"{self.folder}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}"}

    def up(self, plan: Plan, report: Callable[[str], None]) -> None:
        """Start the pool.

        Raises UserError without root or chroot, or if the pool is up, and MeasurementFailed with the end of a log.
        """
        root = chroot.CONDOR.folder(install.tools_folder())
        if not chroot.CONDOR.present(install.tools_folder()):
            raise UserError(
                PLACE,
                f"there is no HTCondor in {root}",
                "run `storelab install condor` as root, which builds it in one to two minutes",
            )
        if self.pids():
            raise UserError(PLACE, f"a testbed is already up in {self.folder}", "run `storelab testbed down` first")
        self.down()  # removes the parts that a killed `up` left
        claim(self.folder)
        report(f"{len(plan.namespaces)} namespaces, {len(plan.rates) + len(plan.front_ends)} shaped links")
        self.network.up(plan)
        try:
            self._write_programs()
            hosts = write_hosts(self.folder, plan)
            report("head: collector, negotiator, schedd")
            self._start(root, hosts, "head", os.uname().nodename, plan.head, HEAD, "COLLECTOR NEGOTIATOR SCHEDD")
            for i, (space, address) in enumerate(plan.nodes.items(), 1):
                report(f"startd node{i}")
                self._start(root, hosts, f"node{i}", f"node{i}", space, address, "STARTD")
            self._wait(len(plan.rates))
        except BaseException:
            self.down()
            raise

    def _write_programs(self) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        programs = {self.folder / "bin" / name: TOOL.format(name=name, folder=self.folder) for name in TOOLS}
        programs |= {self.folder / "job": WRAPPER, self.folder / "enter": ENTER % {"user": chroot.CONDOR_USER}}
        for path, text in programs.items():
            path.write_text(text)
            path.chmod(0o755)

    def _start(self, root: Path, hosts: Path, name: str, host: str, space: str, address: str, daemons: str) -> None:
        """Start one host of the pool, whose first process is HTCondor's master."""
        local = self.folder / name
        for part in ("log", "spool", "execute", "lock", "run"):
            (local / part).mkdir(parents=True, exist_ok=True)
        conf = local / "condor_config"
        conf.write_text(configuration(self.folder, name, host, address, daemons))
        spaces = ["unshare", "--uts", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"]
        inside = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", f"CONDOR_CONFIG={conf}", "condor_master", "-f"]
        # The process writes its pid itself, because `up` may be killed at any time.
        note = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(local / "outer.pid")]
        script = [str(self.folder / "enter"), str(root), str(hosts), host]
        with open(local / "start.log", "wb") as log:
            process = subprocess.Popen(
                [*note, "nsenter", f"--net=/run/netns/{space}", *spaces, *script, *inside],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            (local / "first.pid").write_text(_child(process))
        except BaseException:
            process.kill()  # the child of this process ends too
            process.wait()
            raise

    def _wait(self, nodes: int) -> None:
        """Wait until all nodes are in the collector, and the schedd answers."""
        limit = time.monotonic() + UP_S
        while time.monotonic() < limit:
            if dead := [name for name in self._names() if name not in self.pids()]:
                break
            if len(set(self._ask("condor_status", "-af", "Machine"))) == nodes and self._ask("condor_q", "-totals"):
                return
            time.sleep(0.3)
        name = dead[0] if dead else "head"
        logs = (self.folder / name / log for log in ("log/MasterLog", "start.log"))
        last = ["no log", *(line for log in logs for line in processes.log_lines(log)[-1:])][-1]
        what = f"{name} ended" if dead else f"not all of {nodes} nodes are in the pool after {UP_S:.0f} s"
        raise MeasurementFailed(f"{PLACE}: {what} ({last[:300]})")

    def _ask(self, tool: str, *arguments: str) -> list[str]:
        done = processes.run_command([self.folder / "bin" / tool, *arguments])
        return done.stdout.split() if done.returncode == 0 else []

    def _names(self) -> list[str]:
        """Return the names of the hosts that were started."""
        return [] if not claimed(self.folder) else sorted(path.parent.name for path in self.folder.glob("*/outer.pid"))

    def pids(self) -> dict[str, int]:
        """Return the pid of the first process of each running host, by name."""
        found = {name: int(read(self.folder / name / "first.pid") or 0) for name in self._names()}
        return {name: pid for name, pid in found.items() if pid and self._ours(pid)}

    def _ours(self, pid: int) -> bool:
        return started_with(pid, self.folder, ("cmdline", "environ"))

    def down(self) -> list[str]:
        """Stop the pool, and remove the namespaces. Return the names of the stopped hosts."""
        found = self.stop()
        self.network.down()
        return found

    def stop(self) -> list[str]:
        """End all processes of all hosts of the pool, and return the names of the hosts."""
        names, noted = self._names(), set()
        for name in names:
            outer = read(self.folder / name / "outer.pid").strip()
            children = read(Path(f"/proc/{outer}/task/{outer}/children")).split() if outer else []
            noted |= {(name, int(pid)) for pid in (outer, *children, read(self.folder / name / "first.pid")) if pid}
        ours = {(name, pid) for name, pid in noted if self._ours(pid)}
        for _, pid in ours:
            send(pid, signal.SIGKILL)  # it is the first process of its namespace, so the kernel ends all others
        clock.wait_for(lambda: not any(alive(pid) for _, pid in ours), DOWN_S, 0.02)
        for name in names:
            for note in ("first.pid", "outer.pid"):
                (self.folder / name / note).unlink(missing_ok=True)
        return sorted({name for name, _ in ours})


def _child(process: subprocess.Popen) -> str:
    """Return the pid of the first process in its process namespace; '' if it has ended."""
    while process.poll() is None:
        if children := read(Path(f"/proc/{process.pid}/task/{process.pid}/children")).split():
            return children[0]
        time.sleep(0.01)
    return ""
