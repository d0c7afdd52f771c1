"""What `cvmfs_swissknife` needs to sign: the store's keys, in memory alone; a repository's own, made for one attempt.

A repository has a master key, which signs the whitelist, and a certificate with a key, which signs the manifest; the
whitelist names the certificate. May import: cryptography in functions, `stores`, `core`.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storelab.core.errors import UserError
from storelab.stores.protocols.endpoint import Bucket, Credentials, Endpoint

VALID = timedelta(days=30)  # of whitelist and certificate
BITS = 2048
PLACE = "engine cvmfs"
_PLAIN = re.compile(r"[A-Za-z0-9/+=_.-]+")  # a shell reads the settings, and says them again without quotes
_INSTEAD = "sweep engine wire"


@dataclass(frozen=True)
class Made:
    """Files of a repository's own keys: public part of the master key, certificate, its key; the signed whitelist."""

    public: Path
    certificate: Path
    key: Path
    whitelist: Path


def settings(endpoint: Endpoint, bucket: Bucket, keys: Credentials | None, workers: int) -> dict[str, str]:
    """Of `s3.conf`. All else is the program's default: HEAD before PUT, x-amz-acl, retries, time-outs.

    Raises UserError where the program cannot speak with such a store.
    """
    if keys is None:
        raise UserError(PLACE, "the store has no keys, and cvmfs_swissknife signs every upload", _INSTEAD)
    if keys.session_token:
        raise UserError(PLACE, "cvmfs_swissknife takes no session token", f"give keys that last, or {_INSTEAD}")
    parts = urlsplit(endpoint.url)
    if parts.scheme != "http" or parts.path.strip("/") or parts.hostname is None or ":" in parts.hostname:
        problem = f"cvmfs_swissknife speaks HTTP here, to a name or an IPv4 address, and not {endpoint.url}"
        raise UserError(PLACE, problem, _INSTEAD)
    told = {
        "CVMFS_S3_HOST": parts.hostname,
        "CVMFS_S3_PORT": str(parts.port or 80),
        "CVMFS_S3_ACCESS_KEY": keys.access_key,
        "CVMFS_S3_SECRET_KEY": keys.secret_key,
        "CVMFS_S3_BUCKET": bucket.name,
        "CVMFS_S3_DNS_BUCKETS": "false",
        "CVMFS_S3_REGION": endpoint.region,  # and so signatures of version 4
        "CVMFS_S3_MAX_NUMBER_OF_PARALLEL_CONNECTIONS": str(workers),
    }
    if odd := [name for name, value in told.items() if not _PLAIN.fullmatch(value)]:
        raise UserError(PLACE, f"{odd[0]} has signs that cvmfs_swissknife cannot read", _INSTEAD)
    return told


def in_memory(told: Mapping[str, str]) -> int:
    """A file descriptor of these settings as `s3.conf`, in a file that lies nowhere and ends with its processes."""
    handle = os.memfd_create("s3.conf")
    os.fchmod(handle, 0o600)
    os.write(handle, "".join(f"{name}={shlex.quote(value)}\n" for name, value in told.items()).encode())
    return handle


def make(folder: Path, repository: str, now: datetime | None = None) -> Made:
    """New keys of a repository, and its whitelist, in an empty folder, for this user alone."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = now or datetime.now(UTC)
    master, own = (rsa.generate_private_key(65537, BITS) for _ in range(2))
    certificate = _certificate(own, repository, now)
    made = Made(*(folder / name for name in ("master.pub", "release.crt", "release.key", "whitelist")))
    pem = serialization.Encoding.PEM
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    plain = serialization.NoEncryption()
    _write(made.public, master.public_key().public_bytes(pem, spki))
    _write(made.certificate, certificate.public_bytes(pem))
    _write(made.key, own.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain))
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
    """When it was made, when it ends, the repository, the certificate's fingerprint (it is DER), and the signature.

    master: the private numbers of an RSA key. It signs the SHA-1, as 40 signs, without naming a hash (PKCS #1, type 1).
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
