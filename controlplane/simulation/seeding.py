"""Objects that have to be there: created once, left alone or brought up to date afterwards.

In: a kind, a name, and the object's other fields. Out: the object in the store. What a world sets up for itself goes
through here, so that a second start finds its own work and does not undo what people have changed since.
"""

from __future__ import annotations

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.store import Store


def ensure(store: Store, kind: Kind, name: str, namespace: str = "", *, keep: bool = True, **fields: object) -> Json:
    """Return an object, created with `fields` if it was not there; without `keep`, the fields of one that was are set
    again.
    """
    head = {"name": name, **({"namespace": namespace} if namespace else {})}
    try:
        return store.create(kind, {"metadata": head, **fields}, field_manager="simulation")
    except ApiError as error:
        if error.status != 409:
            raise
    if keep:
        return store.get(kind, namespace, name)
    return store.patch(kind, namespace, name, dict(fields), field_manager="simulation")
