"""A throwaway authority and certificate for addresses, as XRootD wants them.

Its clients look for the host of the URL among the DNS names of a certificate, also where that host is an address;
others look for it among the addresses. So every address stands there twice, which `trustme` cannot do. And XRootD's
client before version 6 wants a folder of authorities, each under the hash of its name.
"""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from storelab.core.errors import MeasurementFailed
from storelab.host import processes
from storelab.install import program


def make(folder: Path, addresses: Sequence[str], place: str) -> None:
    """Fill an empty folder: `ca.pem`, `server.pem` (the chain), `server.key`, and `authorities` with ca.pem by hash."""
    import trustme
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority = trustme.CA()
    above = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    signer = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), *map(x509.DNSName, addresses)]
    names += [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
    issued = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "storelab xrootd")]))
        .issuer_name(above.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(above.not_valid_before_utc)
        .not_valid_after(above.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    )
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "server.pem").write_bytes(issued.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").touch(mode=0o600)
    (folder / "server.key").write_bytes(text)
    (folder / "authorities").mkdir(exist_ok=True)
    (folder / "authorities" / "ca.pem").write_bytes(authority.cert_pem.bytes())
    hashed = processes.ask([program("openssl", "xrootd", place), "rehash", folder / "authorities"])
    if hashed.returncode:
        raise MeasurementFailed(f"{place}: no folder of authorities could be made: {processes.words(hashed)}")
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())  # last: it says that all is there
