"""The rights of the roles of the schema, granted anew: a dump that was restored without them, or somebody who revoked
one, would otherwise leave a service that cannot append, and functions that everybody may call.

In: nothing. Out: statements that the schema's owner runs at its newest version, as often as he likes. They end at what
the migrations grant, no more and no less."""

from __future__ import annotations

_OWNERS_ALONE = (
    "merge_marks",
    "partition_size",
    "views_of_events",
    "exchange_events",
    "partitions_end",
    "make_room",
    "room_ahead",
    "drop_read_models",
)
"""The functions of the schema that no other role calls."""


def statements() -> list[str]:
    """Return the statements, in order."""
    return [
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA controlplane, audit FROM PUBLIC",
        "GRANT USAGE ON SCHEMA controlplane, read_models TO controlplane_service",
        "GRANT USAGE ON SCHEMA audit TO controlplane_service, controlplane_reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA controlplane TO controlplane_service",
        "GRANT SELECT ON ALL TABLES IN SCHEMA audit TO controlplane_service, controlplane_reader",
        "GRANT SELECT ON read_models.progress TO controlplane_service",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA controlplane TO controlplane_service",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA audit TO controlplane_service, controlplane_reader",
        *(f"REVOKE ALL ON FUNCTION controlplane.{name} FROM controlplane_service" for name in _OWNERS_ALONE),
    ]
