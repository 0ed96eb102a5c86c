"""The settings of tracing: where spans are sent, and of how many traces."""

from __future__ import annotations

from typing import Annotated

from controlplane.settings.rules import Integer, Setting, Text
from controlplane.values import Value


class TracingSettings(Value, rename="camel"):
    """Spans of the way from a watch line to a request, for an OpenTelemetry collector."""

    endpoint: Annotated[
        str,
        Setting(
            Text(what="an http or https URL", pattern=r"https?://[^\s]+", longest=2048, empty=True),
            "Where spans are sent, in OTLP over HTTP, such as `http://collector:4318/v1/traces`. Empty: nowhere. The "
            "extra `controlplane[otel]` has to be installed, which it is in the image.",
        ),
    ] = ""
    percent: Annotated[
        int,
        Setting(
            Integer(least=0, most=100),
            "Of how many in a hundred traces spans are sent. Every process chooses the same ones.",
        ),
    ] = 100
