"""Serves TLS to clients whose certificate one authority has signed, while both the server's certificate and the
authority may change.

In: certificate files, and the authority as it is now. Out: one TLS context to listen with. Each connection gets the
context of the moment, for an authority that was added to a context cannot be taken from it. There are no sessions to
resume, as one would carry a certificate past the authority's end: TLS 1.3 has them in tickets alone, and none are
given. A client without a certificate is let in, and known by having none."""

from __future__ import annotations

import ssl
import time
from typing import Any

from controlplane.web.webhook import Certificate


class ClientAuthority:
    """See the module."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate, self._authority, self._stale = certificate, "", False
        self.context = certificate.context
        _asks_for_certificates(self.context)
        self._current = self._fresh("")
        self.context.sni_callback = self._chosen

    def _chosen(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _fresh(self, authority: str) -> ssl.SSLContext:
        found = self.certificate.fresh()
        _asks_for_certificates(found)
        if authority:
            # A bundle has comments in any language, which Python does not take.
            found.load_verify_locations(cadata=authority.encode("ascii", "ignore").decode())
        return found

    def trust(self, authority: str) -> bool:
        """Trust this authority (PEM) alone from now on; return whether it is another one. Raises `ssl.SSLError` and
        `ValueError` for what is none, and `CertificateError`: then the one before is trusted on."""
        if authority == self._authority:
            return False
        self._current = self._fresh(authority)
        self._authority = authority
        return True

    def renew(self) -> bool:
        """Take over what is in the certificate's files now; return whether it is another certificate.
        `CertificateError` if it cannot be used."""
        self._stale = self.certificate.renew() or self._stale
        if not self._stale:
            return False
        self._current = self._fresh(self._authority)  # which may fail where the files change just now
        self._stale = False
        return True

    def common_name(self, connection: Any) -> str | None:
        """Return the common name of a client's certificate; None if it has shown none that is trusted now."""
        shown = self.subject(connection)
        return shown[0] if shown is not None else None

    def subject(self, connection: Any) -> tuple[str, tuple[str, ...]] | None:
        """Return the common name and the organizations of a client's certificate, which are a user and its groups to
        Kubernetes; None if it has shown none that is trusted now."""
        if not isinstance(connection, ssl.SSLObject | ssl.SSLSocket) or connection.context is not self._current:
            return None
        shown = connection.getpeercert()
        if not shown or ssl.cert_time_to_seconds(str(shown["notAfter"])) < time.time():
            return None
        said: Any = [pair for names in shown.get("subject", ()) for pair in names]
        name = next((str(value) for key, value in said if key == "commonName"), "")
        return name, tuple(str(value) for key, value in said if key == "organizationName")


def _asks_for_certificates(context: ssl.SSLContext) -> None:
    context.verify_mode = ssl.CERT_OPTIONAL
    # As Go does, with which authorities of clusters are made: whatever is in the file is trusted, and RFC 5280's
    # extensions need not all be there.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
