"""The settings that a log's service decides by, as it said itself when it began to lead.

In: a reader. Out: the newest `PolicyInForce`, None in a log of a version that said nothing. For every answer that
depends on a setting."""

from __future__ import annotations

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.settings import Settings
from controlplane.settings.recorded import with_recorded_quota


def in_force(reader: LogReader) -> PolicyInForce | None:
    """Return what the process that led last said of its settings."""
    found = reader.events(Filter(streams=["service"], types=[PolicyInForce.__name__]), limit=1, newest=True)
    return next((recorded.event for recorded in found if isinstance(recorded.event, PolicyInForce)), None)


def with_quota_in_force(settings: Settings, reader: LogReader) -> Settings:
    """Return a reader's settings with what that process said of how it decides about quota; as they are where Kueue decides, or
    the log does not say."""
    said = in_force(reader)
    if said is None:
        return settings
    return with_recorded_quota(settings, said.quota, orchestrated_preemption=said.orchestrated_preemption)
