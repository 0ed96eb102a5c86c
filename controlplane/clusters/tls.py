"""Makes the TLS context for one API server from PEM bytes.

OpenSSL only loads a client key from a path. On Linux that path leads to memory, so the key never touches a disk,
whatever kills the process; elsewhere it is a private file that is gone before this module returns."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator

from controlplane.clusters.kubeconfig import BAD, ClientConfig, KubeconfigError


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return a verifying client context: the kubeconfig's CA alone, or the system's where it names none.

    Raises `KubeconfigError` (`BadKubeConfig`) if a certificate or key cannot be used.
    """
    try:
        # A bundle has comments in any language, which Python does not take.
        authority = config.ca_data.decode("ascii", "ignore")
        if config.ca_data and not authority:  # with nothing the system's authorities would be trusted
            raise ValueError("there is no PEM in it")
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise KubeconfigError(BAD, "certificate-authority-data holds no usable PEM certificate") from None
    # Python 3.13 made this the default; certificates of many clusters lack the extensions it asks for, and Go accepts
    # them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.client_certificate_data or config.client_key_data:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    if not (config.client_certificate_data and config.client_key_data):
        raise KubeconfigError(BAD, "client-certificate-data and client-key-data must be given together")
    both = config.client_certificate_data.rstrip() + b"\n" + config.client_key_data
    try:
        with _as_path(both) as path:
            context.load_cert_chain(
                path, password=""
            )  # a password of our own, or OpenSSL would ask for one on the terminal
    except (ssl.SSLError, ValueError):
        raise KubeconfigError(BAD, "client-certificate-data and client-key-data are no usable PEM pair") from None


@contextlib.contextmanager
def _as_path(data: bytes) -> Iterator[str]:
    """Give the bytes a path for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(data)
        named.flush()
        yield named.name
