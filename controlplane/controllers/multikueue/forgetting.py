"""Takes what is gone out of what is known, by its UID: a list shows another object of the name before it says that the
one before is gone."""

from __future__ import annotations

from typing import TypeVar

from controlplane.controllers.multikueue.observations import ObjectGone, Observation

K = TypeVar("K")
V = TypeVar("V", bound=Observation)


def forget(known: dict[K, V], key: K, gone: ObjectGone) -> None:
    """Forget what is known under a key if that is what is gone."""
    if key in known and known[key].uid == gone.uid:
        del known[key]
