"""Configuration of an XRootD that storelab runs: the text for its daemons, and its certificates.

Timeouts that differ from XRootD's defaults make the start quick, and let the servers notice a loss during a campaign.
"""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from storelab.core.errors import MeasurementFailed
from storelab.host import processes
from storelab.install import program

COMMON = """# {node} at {address}
if exec xrootd
xrd.protocol XrdHttp{http} libXrdHttp.so
{tls}fi
xrd.network nodnr
xrd.allow host *
all.export /
all.adminpath {root}
all.pidpath {root}
http.desthttps {https}
http.selfhttps2http no
http.listingdeny no
xrootd.chksum max 2 adler32 crc32c
xrd.report 127.0.0.1:{unused_port} every {report}s all sync
"""
DATA = """oss.localroot {root}/objects
"""
# Refuse all connections without encryption.
TLS = """xrd.tls {root}/server.pem {root}/server.key
xrd.tlsca certfile {root}/ca.pem
xrootd.tls all
"""
# Seconds. XRootD's defaults: 90 of startup, 5 of lookup and query deadline, 30 of suspend, 90 of service, 600 of drop.
WAITS = {"startup": 1, "lookup": 1, "qdl": 1, "suspend": 1, "service": 1, "drop": 10}
# A server counts the transfers of a connection when it ends, or when the server sends a report. No program receives
# these reports.
REPORT, UNUSED_PORT = 1, 9
CONNECT = 1  # seconds until a data server that was not accepted by a redirector retries; XRootD's default: 10


def _common(node: str, address: str, root: str, tls: bool, http: str = "") -> str:
    secure = TLS.format(root=root) if tls else ""
    more = {"https": "yes" if tls else "no", "report": REPORT, "unused_port": UNUSED_PORT}
    return COMMON.format(node=node, address=address, root=root, http=http, tls=secure, **more)


def single(address: str, port: int, root: str, tls: bool) -> str:
    """Return the configuration of a single server, in which XrdHttp has a separate port."""
    return f"xrd.port {port}\n" + _common("server", address, root, tls, f":{port + 1}") + DATA.format(root=root)


def redirector(node: str, address: str, port: int, cms: int, root: str, tls: bool) -> str:
    """Return the configuration of a redirector. Its xrootd listens at the port `port`, its cmsd at `cms`."""
    waits = " ".join(f"{name} {seconds}" for name, seconds in WAITS.items())
    return _common(node, address, root, tls) + (
        f"all.role manager\nall.manager {address}:{cms}\nxrd.port {port} if exec xrootd\nxrd.port {cms} if exec cmsd\n"
        f"cms.delay {waits} servers 1\n"
    )


def server(node: str, address: str, port: int, managers: Sequence[str], root: str, tls: bool) -> str:
    """Return the configuration of a data server that joins all `managers` (host:port)."""
    lines = "".join(f"all.manager all {manager}\n" for manager in managers)
    return _common(node, address, root, tls) + (
        f"all.role server\n{lines}xrd.port {port} if exec xrootd\n"
        f"cms.conwait {CONNECT}\ncms.space linger 0 recalc 15 min 1% 100m 2% 200m\n" + DATA.format(root=root)
    )


def proxy(node: str, address: str, port: int, origin: str, root: str, tls: bool) -> str:
    """Return the configuration of a proxy for the redirector `origin` (host:port)."""
    return _common(node, address, root, tls) + f"xrd.port {port}\nofs.osslib libXrdPss.so\npss.origin {origin}\n"


def timeouts() -> dict[str, int]:
    """Return the timeouts of the configuration in seconds, by directive."""
    return {f"cms.delay {name}": seconds for name, seconds in WAITS.items()} | {"cms.conwait": CONNECT}


def make_certificate(folder: Path, addresses: Sequence[str], place: str) -> None:
    """Write `ca.pem`, `server.pem` (the chain), `server.key` and `authorities` (ca.pem by hash) to an empty folder.

    XRootD's clients look for the URL's host among the DNS names of a certificate, even if it is an address. Other
    clients look for an address among the IP addresses. Therefore every address is included as both, which `trustme`
    cannot do. XRootD's client before version 6 needs a folder of authorities, whose file names are hashes.
    """
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
    hashed = processes.run_command([program("openssl", "xrootd", place), "rehash", folder / "authorities"])
    if hashed.returncode:
        raise MeasurementFailed(f"{place}: the folder of authorities cannot be created: {processes.words(hashed)}")
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())  # last, because it marks the folder as complete
