"""What this process shows over HTTP: the endpoints for operators (`ops`), fed by `health`, and an admission webhook."""

from __future__ import annotations

from controlplane.web.health import Check, Health
from controlplane.web.ops import ListenError, WebServer, create_app, serve
from controlplane.web.webhook import Certificate, CertificateError, Webhook, serve_webhook

__all__ = [
    "Certificate",
    "CertificateError",
    "Check",
    "Health",
    "ListenError",
    "WebServer",
    "Webhook",
    "create_app",
    "serve",
    "serve_webhook",
]
