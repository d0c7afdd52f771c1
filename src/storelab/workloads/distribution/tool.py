"""Engine `cvmfs` of `publish`: `cvmfs_swissknife`, the publishing tool of CernVM-FS, on folder trees without a mount.

`Runner` runs the program. The program always writes a database of statistics in /var/spool/cvmfs, and reads settings
from /etc/cvmfs. It therefore runs in a mount namespace with scratch folders in these places, so that files of this host
are neither written nor read. The keys of the store are only in memory. A repository has a master key, which signs the
whitelist, and a certificate with a key, which signs the manifest. Both are made for one attempt.

`Repository` makes a repository and publishes to it: `create`, `upload`, then `sync` and `sign` for each day. It calls
the program like `cvmfs_server mkfs` and `publish`, except for the mount. The tree of a day replaces the union file
system, and a tree of names replaces the previous state.

The program compresses, hashes and uploads in one step. The time of a day therefore includes its preparation, and
`prepare_ns` is null.
"""

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core import clock
from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.datasets.release.trees import Trees
from storelab.engines.common.guard import Guard
from storelab.engines.common.objects import put_prefix
from storelab.engines.contract import Job, Result
from storelab.host import processes
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint
from storelab.workloads.distribution.publish import COUNTED, CUT, PUBLISHED, PublishClient
from storelab.workloads.distribution.stratum import WAITS, Failed, OutOfTime, Stratum

NAME = "cvmfs_swissknife"
PLACE = "engine cvmfs"
# $1: a folder in place of /var/spool; $2: an empty folder in place of /etc/cvmfs, if that exists; $3: mount point of a
# private tmpfs, which ends with the namespace; $4: file descriptor of the content of its `s3.conf`; $5: the program.
# When its watchdog is killed, a file remains in /tmp. /tmp is therefore replaced, unless one of these paths is in it.
_INSIDE = """
umask 077 && mount --bind "$1" /var/spool && { [ ! -d /etc/cvmfs ] || mount --bind "$2" /etc/cvmfs; } &&
mount -t tmpfs -o mode=0700,size=1m tmpfs "$3" && cat "/proc/self/fd/$4" > "$3/s3.conf" &&
case "$3:$5" in /tmp/*|*:/tmp/*) ;; *) mount -t tmpfs -o mode=1777 tmpfs /tmp ;; esac && shift 4 && exec "$@"
"""
_HIDDEN = ("AWS_", "STORELAB_")  # prefixes of environment variables that the program must not see
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_OUTPUT_BYTES = 4000  # number of bytes at the end of its output that are read
STATISTICS = ("-+", "stats")  # switch that prints its counters at the end


def binary() -> Path:
    """Return the path of the program. Raises UserError if it is missing, does not run, or cannot use a namespace."""
    found = shutil.which(NAME)
    if found is None:
        hint = "install cvmfs-server from the packages of CernVM-FS (docs/distribution.md), or use the engine wire"
        raise UserError(PLACE, f"{NAME} is not installed: it is not in PATH", hint)
    program_version(Path(found))
    done = processes.run_command([*_namespace_prefix(), "true"])
    if done.returncode:
        problem = f"{NAME} needs a mount namespace, which cannot be made here ({processes.words(done)})"
        raise UserError(PLACE, problem, "use a host or a container that allows user namespaces, or the engine `wire`")
    return Path(found)


def program_version(path: Path) -> str:
    """Return the version, for example `2.12.0`. Raises UserError if the program does not run."""
    done = processes.run_command([path, "version"])
    if done.returncode or not done.stdout.strip():
        problem = f"{NAME} does not run here: {processes.words(done) or 'it prints no version'}"
        raise UserError(PLACE, problem, "install it again, with its libraries")
    return done.stdout.split()[0]


def _namespace_prefix() -> tuple[str, ...]:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--mount")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the program inherits, without keys and proxies."""
    return {k: v for k, v in environ.items() if not k.startswith(_HIDDEN) and k.lower() not in _PROXIES}


class Runner:
    """A runner of commands of the program, one after the other, until a deadline.

    Parameters
    ----------
    path
        Path of the program.
    folder
        A folder on tmpfs that only this runner uses.
    repository
        Name of the repository.
    config
        File descriptor of the settings, which the program finds at `s3_conf`.
    hidden
        Words that are removed from messages.

    Attributes
    ----------
    deadline_ns
        Deadline in the time of `time.time_ns`; None: one minute for each command.
    """

    LONGEST_S = 60.0

    def __init__(self, path: Path, folder: Path, repository: str, config: int, hidden: Sequence[str] = ()):
        self.path, self.folder, self.config, self.hidden = path, folder, config, tuple(filter(None, hidden))
        self.spool, self.empty, self.private = (folder / name for name in ("spool", "empty", "private"))
        (self.spool / "cvmfs" / repository).mkdir(parents=True, exist_ok=True)
        self.empty.mkdir(exist_ok=True)
        self.private.mkdir(mode=0o700, exist_ok=True)
        self.s3_conf = self.private / "s3.conf"
        self.deadline_ns: int | None = None

    def command(self, *words: str | Path) -> list[str]:
        """Return the complete command line. It contains no secrets."""
        inside = ["sh", "-c", _INSIDE, "sh", self.spool, self.empty, self.private, self.config]
        return [str(word) for word in (*_namespace_prefix(), *inside, self.path, *words)]

    def run(self, *words: str | Path) -> Counter[str]:
        """Run a command, and return its counters. Raises Failed or OutOfTime after all its processes have ended."""
        left_s = self.LONGEST_S if self.deadline_ns is None else (self.deadline_ns - time.time_ns()) / 1e9
        if left_s <= 0:
            raise OutOfTime
        out, error = self.folder / "out", self.folder / "error"
        with open(out, "wb") as to, open(error, "wb") as complaints:
            process = subprocess.Popen(
                self.command(*words, *STATISTICS),
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=complaints,
                env=environment(os.environ),
                pass_fds=(self.config,),
                cwd=self.folder,
                process_group=0,
                preexec_fn=processes.die_with_parent(),
            )
            try:
                status = process.wait(left_s)
            except subprocess.TimeoutExpired:
                raise OutOfTime from None
            finally:
                self._end(process)
        if status:
            printed = error.read_bytes() or out.read_bytes()
            last = self.redacted(printed[-_OUTPUT_BYTES:].decode(errors="replace"))
            raise Failed(f"{NAME} {words[0]}: status {status}: {last}")
        return counters(out.read_text(errors="replace"))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill all processes of a command. The watchdog ends with them."""
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def redacted(self, text: str) -> str:
        """Return the text on one line, without secrets."""
        for word in self.hidden:
            text = text.replace(word, "***")
        return " ".join(text.split())[-300:]


def counters(text: str) -> Counter[str]:
    """Return the counters by name, from lines like `publish.n_chunks_added|12|Number of new chunks added`."""
    found = (line.split("|", 2) for line in text.splitlines())
    return Counter({w[0]: int(w[1]) for w in found if len(w) == 3 and w[1].lstrip("-").isdigit()})


VALID = timedelta(days=30)  # validity of whitelist and certificate
BITS = 2048
_PLAIN = re.compile(r"[A-Za-z0-9/+=_.-]+")  # a shell reads the settings, and prints them without quotes
_INSTEAD = "use the engine wire"


@dataclass(frozen=True)
class Made:
    """The files with the keys of a repository: public master key, certificate, its key, and signed whitelist."""

    public: Path
    certificate: Path
    key: Path
    whitelist: Path


def settings(endpoint: Endpoint, bucket: Bucket, keys: Credentials | None, workers: int) -> dict[str, str]:
    """Return the settings for `s3.conf`. Other settings have the program's defaults.

    The defaults include HEAD before PUT, x-amz-acl, and retries. Raises UserError if the program cannot use the store.
    """
    if keys is None:
        raise UserError(PLACE, "the store has no keys, but cvmfs_swissknife signs every upload", _INSTEAD)
    if keys.session_token:
        raise UserError(PLACE, "cvmfs_swissknife does not support session tokens", f"use permanent keys, or {_INSTEAD}")
    parts = urlsplit(endpoint.url)
    if parts.scheme != "http" or parts.path.strip("/") or parts.hostname is None or ":" in parts.hostname:
        problem = f"cvmfs_swissknife needs HTTP and a host name or an IPv4 address instead of {endpoint.url}"
        raise UserError(PLACE, problem, _INSTEAD)
    values = {
        "CVMFS_S3_HOST": parts.hostname,
        "CVMFS_S3_PORT": str(parts.port or 80),
        "CVMFS_S3_ACCESS_KEY": keys.access_key,
        "CVMFS_S3_SECRET_KEY": keys.secret_key,
        "CVMFS_S3_BUCKET": bucket.name,
        "CVMFS_S3_DNS_BUCKETS": "false",
        "CVMFS_S3_REGION": endpoint.region,  # selects signatures of version 4
        "CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS": str(workers),
    }
    if odd := [name for name, value in values.items() if not _PLAIN.fullmatch(value)]:
        raise UserError(PLACE, f"{odd[0]} has characters that cvmfs_swissknife cannot read", _INSTEAD)
    return values


def in_memory(values: Mapping[str, str]) -> int:
    """Return a file descriptor of these settings as `s3.conf`, in an anonymous file that ends with its processes."""
    handle = os.memfd_create("s3.conf")
    os.fchmod(handle, 0o600)
    os.write(handle, "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()).encode())
    return handle


def make_keys(folder: Path, repository: str, now: datetime | None = None) -> Made:
    """Make new keys and the whitelist of a repository in an empty folder. Only this user can read them."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = now or datetime.now(UTC)
    master, repository_key = (rsa.generate_private_key(65537, BITS) for _ in range(2))
    certificate = _certificate(repository_key, repository, now)
    made = Made(*(folder / name for name in ("master.pub", "release.crt", "release.key", "whitelist")))
    pem = serialization.Encoding.PEM
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    plain = serialization.NoEncryption()
    _write(made.public, master.public_key().public_bytes(pem, spki))
    _write(made.certificate, certificate.public_bytes(pem))
    _write(made.key, repository_key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain))
    der = certificate.public_bytes(serialization.Encoding.DER)
    _write(made.whitelist, whitelist(repository, der, now, master.private_numbers()))
    return made


def _certificate(key: Any, repository: str, now: datetime) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{repository[:30]} storelab")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
    )


def whitelist(repository: str, certificate: bytes, now: datetime, master: Any) -> bytes:
    """Return the whitelist: creation time, expiry, repository, fingerprint of the certificate (DER), and signature.

    master: the private numbers of an RSA key. It signs the SHA-1 as 40 characters, without naming a hash (PKCS #1, type
    1).
    """
    stamps = (f"{at:%Y%m%d%H%M%S}" for at in (now, now + VALID))
    finger = hashlib.sha1(certificate).hexdigest().upper()
    pairs = ":".join(finger[i : i + 2] for i in range(0, len(finger), 2))
    text = "{}\nE{}\nN{}\n{}\n".format(*stamps, repository, pairs).encode()
    digest = hashlib.sha1(text).hexdigest().encode()
    size = (master.public_numbers.n.bit_length() + 7) // 8
    padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
    signature = pow(int.from_bytes(padded, "big"), master.d, master.public_numbers.n).to_bytes(size, "big")
    return text + b"--\n" + digest + b"\n" + signature


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


_SEPARATORS = ",@:"  # characters at which the program splits lists
# Counters of the program. A chunk is an object with data; whole files count too.
CHUNKS, DUPLICATES, CATALOGS = "publish.n_chunks_added", "publish.n_chunks_duplicated", "publish.n_catalogs_added"
BYTES, CATALOG_BYTES = "publish.sz_uploaded_bytes", "publish.sz_uploaded_catalog_bytes"
GETS, GOT_BYTES = "download.n_requests", "download.sz_transferred_bytes"


class Repository:
    """One repository, below a prefix of a bucket.

    url: its publicly readable address; alias: the prefix of its keys. The folder of the runner is on tmpfs.
    """

    def __init__(self, runner: Runner, settings: Settings, url: str, alias: str, trees: Trees):
        self.runner, self.settings, self.url, self.trees = runner, settings, url, trees
        self.folder = runner.folder
        if set(str(self.folder)) & set(_SEPARATORS):
            problem = f"cvmfs_swissknife cannot use a folder with one of {' '.join(_SEPARATORS)} in its name"
            raise UserError("config.yaml: scratch", problem, "set another folder on tmpfs")
        for name in ("temporary", "keys"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        self.temporary, self.manifest = self.folder / "temporary", self.folder / "manifest"
        self.checksum = self.folder / "reflog.chksum"
        self.upstream = f"S3,{self.temporary},{alias}@{runner.s3_conf}"
        self.keys = make_keys(self.folder / "keys", settings.repository)
        self.root = ""  # catalog that the manifest in the store names

    def make(self) -> Counter[str]:
        """Make an empty repository with its whitelist, and return the program's counters."""
        name = self.settings.repository
        where = ("-o", self.manifest, "-t", self.temporary, "-r", self.upstream)
        spent = self.runner.run("create", *where, "-n", name, "-R", self.checksum, "-z")
        spent += self.runner.run("upload", "-i", self.keys.whitelist, "-o", ".cvmfswhitelist", "-r", self.upstream)
        return spent + self._signed()

    def publish(self, day: int) -> Counter[str]:
        """Publish `trees.changed` as the revision `day`. Make the repository first if necessary.

        Returns the program's counters. Raises Failed or OutOfTime; the store then has the manifest of the previous day.
        """
        spent = Counter[str]() if self.root else self.make()
        cut = self.settings.chunks
        spent += self.runner.run(
            *("sync", "-b", self.root, "-f", "aufs", "-v", str(day)),
            *("-u", self.trees.changed, "-s", self.trees.changed, "-c", self.trees.there),
            *("-w", self.url, "-K", self.keys.public, "-N", self.settings.repository),
            *("-o", self.manifest, "-t", self.temporary, "-r", self.upstream),
            *("-p", "-l", str(cut.minimum), "-a", str(cut.average), "-h", str(cut.maximum)),
        )
        return spent + self._signed()

    def _signed(self) -> Counter[str]:
        """Sign and upload the manifest, after the reflog."""
        lines = self.manifest.read_text().splitlines()
        # root in the manifest, which is not signed yet
        root = next(line[1:41] for line in lines if line.startswith("C"))
        spent = self.runner.run(
            *("sign", "-m", self.manifest, "-u", self.url, "-r", self.upstream, "-t", self.temporary, "-g"),
            *("-n", self.settings.repository, "-R", self.checksum),
            *("-c", self.keys.certificate, "-k", self.keys.key),
        )
        self.root = root
        return spent

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


UNCOUNTED_OBJECTS = 2  # objects of a day that the program does not count: reflog and manifest


class ToolClient(PublishClient):
    """A client that runs one process of the program at a time."""

    def __init__(self, job: Job):
        super().__init__(job)
        names = ("op", "object", "count", "bytes", "end_ns", "status", "error")
        self.ops: dict[str, list[Any]] = {name: [] for name in names}
        self.spent: Counter[str] | None = None  # the program's counters of this day; None if it reported nothing
        self.stored = self.bytes = self.gets = 0  # sums over all days
        self.messages: dict[str, str] = {}
        self.guard = Guard(job.limits, self.axes["clients"])
        self.config = -1

    def prepare(self) -> None:
        credentials, bucket = Credentials.found(os.environ), self.job.account_buckets[0]
        values = settings(self.job.endpoint, bucket, credentials, self.axes["workers"])
        path = binary()
        self.program_version_text = program_version(path)
        self.settings = Settings.model_validate(self.job.point.fixed["release"])
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trees = Trees(self.settings, self.folder / "trees")
        self.config = in_memory(values)
        (tool := self.folder / "tool").mkdir(mode=0o700)
        name, hidden = self.settings.repository, [values[f"CVMFS_S3_{key}_KEY"] for key in ("ACCESS", "SECRET")]
        self.runner = Runner(path, tool, name, self.config, hidden)
        alias, url = f"{bucket.prefix}{put_prefix(self.job.attempt)}{name}", f"{self.job.extra['url']}/{name}"
        self.repository = Repository(self.runner, self.settings, url, alias, self.trees)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.runner.deadline_ns = deadline_ns
        super().run(start_ns, deadline_ns)

    def one_day(self, n: int) -> bool:
        """Write the tree of a day, and publish it with days that failed before. Return False after the deadline."""
        facts, self.spent = self.trees.add(n), None
        columns = {"files": facts["new_files"], "raw_bytes": facts["raw_bytes"]}
        state = self.tried(n, 0, [], partial(self._publish, n), columns)
        if state == PUBLISHED:
            self.trees.published()
        return state != CUT

    def _publish(self, n: int) -> int:
        """Publish a day, keep the program's counters, check the limits, and return the number of its objects.

        The limits are checked too late for this day. They apply to the next day.
        """
        try:
            self.spent = self.repository.publish(n)
        except Failed as error:
            self.messages.setdefault("Tool", str(error))
            raise
        counted, end = self.counted([]), clock.now_ns()
        stored, size, gets = (counted[name] or 0 for name in ("stored", "bytes", "gets"))
        self._keep("PUT", stored, size, end)
        self._keep("GET", gets, self.spent[GOT_BYTES], end)
        self.stored, self.bytes, self.gets = self.stored + stored, self.bytes + size, self.gets + gets
        done = self.stored + self.gets
        self.guard.observe(end, self.bytes, done, done, 0)
        return stored + (counted["skipped"] or 0) + UNCOUNTED_OBJECTS

    def _keep(self, op: str, count: int, size: int, end: int) -> None:
        """Add a bin for a whole day, whose operations were not timed individually."""
        for name, value in {"op": op, "count": count, "bytes": size, "end_ns": end, "status": 0}.items():
            self.ops[name].append(value)
        for name in ("object", "error"):
            self.ops[name].append(None)

    def counted(self, strata: list[Stratum]) -> dict[str, int | None]:
        """Return the program's counts: uploads of data, chunks and catalogs, existing objects, and downloads.

        The program does not count HEAD requests, retries and failures. It reports no counts if it fails.
        """
        out: dict[str, int | None] = dict.fromkeys(COUNTED)
        if (spent := self.spent) is not None:
            stored = spent[CHUNKS] + spent[CATALOGS]
            size = spent[BYTES] + spent[CATALOG_BYTES]
            out |= {"stored": stored, "bytes": size}
            out |= {"gets": spent[GETS], "skipped": spent[DUPLICATES]}
        return out

    def result(self) -> Result:
        n, workers = len(self.ops["op"]), self.axes["workers"]
        values = {"workers": workers, "head_before_put": True, "x_amz_acl": "public-read", "union": "aufs"}
        return Result(
            {"client": [self.job.number] * n, **self.ops},
            engine={
                "name": self.axes["engine"],
                "version": self.version(),
                "settings": {**values, **WAITS, "day_includes_preparation": True},
                "requests_per_operation": {"GET": 1, "PUT": 2},
                "errors": self.messages,
            },
            checks=[self.all_done()],
            connections={"max": workers, "samples": []},
            tables={"days": self.rows},
        )

    def version(self) -> str:
        return f"{NAME} {self.program_version_text}"

    def close(self) -> None:
        super().close()
        if self.config >= 0:
            os.close(self.config)
            self.config = -1
