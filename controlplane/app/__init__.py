"""The composition root: the only place that sees every room. `Service` is what `controlplane run` runs."""

from __future__ import annotations

from controlplane.app.service import Service

__all__ = ["Service"]
