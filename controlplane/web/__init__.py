"""What this process shows over HTTP: so far the endpoints for operators (`ops`), fed by `health`."""

from __future__ import annotations

from controlplane.web.health import Check, Health
from controlplane.web.ops import ListenError, Server, create_app, serve

__all__ = ["Check", "Health", "ListenError", "Server", "create_app", "serve"]
