"""A throw-away certificate authority for TLS tests, made by openssl."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pki:
    ca: bytes
    client_certificate: bytes
    client_key: bytes
    server_context: ssl.SSLContext


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make(folder: Path, server: str = "DNS:worker.example") -> Pki:
    """A CA without the extensions that Python 3.13 asks for by default, a server, and a client."""
    days = ["-days", "2"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", *days)
    for name in ("server", "client"):
        _openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "ext").write_text(f"subjectAltName={server}" if name == "server" else "extendedKeyUsage=clientAuth")
        sign = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "ext"]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *sign, *days)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    files = [(folder / name).read_bytes() for name in ("ca.crt", "client.crt", "client.key")]
    return Pki(files[0], files[1], files[2], context)
