"""What the log keeps of a body: not the values of `env`, not what a setting names, no annotation of a tenant's, and no
more than a bound.

In: an observation with its bodies as they were seen. Out: the same observation with what is stored of them. What is
stored has a hash of its own, so it is never taken for what was seen: that is known by the hash that the event names
(`controlplane.runtime.bodies`). Pure. Lists keep their order: that of variables, containers and arguments has a
meaning, and of conditions it does not change by itself."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from controlplane.log.event import Body, Kept, NewEvent, body_of
from controlplane.settings.model import REDACTED

#: The largest body that is stored, in bytes of JSON.
LARGEST = 64 * 1024
#: Annotations below these prefixes, and below subdomains of them, say how an object is dispatched. No decision and no
#: reason needs another.
_DECISIVE = ("kueue.x-k8s.io", "controlplane", "controlplane.dev")
# What changes with every write of an object and is in the event already, or in nobody's interest.
_OF_EACH_WRITE = frozenset({"managedFields", "resourceVersion"})
_OF_SECRETS = frozenset({"data", "stringData"})
_REMEMBERED = 256


class Redaction:
    """`paths` are field names joined by dots, as they end: `template.spec.volumes` is the `volumes` of every `spec` of
    a `template`. Lists have no part in a path. The values of `env` are left out in any case."""

    def __init__(self, paths: Iterable[str] = REDACTED, largest: int = LARGEST) -> None:
        self._paths, self._largest = tuple(tuple(path.split(".")) for path in paths), largest
        names = {"env", "annotations", *_OF_EACH_WRITE, *_OF_SECRETS, *(path[-1] for path in self._paths)}
        # A body without any of these fields stays as it is, and need not be decoded.
        self._concerned = re.compile("|".join(f'"{re.escape(name)}":' for name in sorted(names)))
        self._answers: OrderedDict[bytes, Body | int] = OrderedDict()

    def stored(self, new: NewEvent) -> NewEvent:
        """Return an observation as the log takes it: with stored bodies, and in `kept` the hash of each that is not as
        it was seen, or the size of one that is too large to be stored."""
        if not new.bodies:
            return new
        bodies: list[Body] = []
        kept: Kept = {}
        for body in new.bodies:
            found = self.of(body)
            if isinstance(found, Body):
                bodies.append(found)
            if found is not body:
                instead = found if isinstance(found, int) else found.ref
                kept |= dict.fromkeys(_naming(new, body.ref), instead)
        event = msgspec.structs.replace(new.event, kept=kept) if kept else new.event
        return msgspec.structs.replace(new, bodies=tuple(bodies), event=event)

    def of(self, body: Body) -> Body | int:
        """Return what is stored of a body, the same object if that is all of it; its size if it is still too large."""
        known = self._answers.get(body.hash)
        if known is None:
            known = self._answers[body.hash] = self._redacted(body)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        # One that was stored whole is told by being the same object.
        return body if isinstance(known, Body) and known.hash == body.hash else known

    def _redacted(self, body: Body) -> Body | int:
        found = body
        if self._concerned.search(body.text):
            found = body_of(self._without(msgspec.json.decode(body.text), ()))
        size = len(found.text.encode())
        return found if size <= self._largest else size

    def _without(self, value: Any, trail: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._without(item, trail) for item in value]
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        secret = value.get("kind") == "Secret"
        for key, inner in value.items():
            here = (*trail, key)
            if self._is_left_out(here) or (secret and key in _OF_SECRETS):
                continue
            if key == "env":
                found[key] = _without_values(inner)
            elif key == "annotations":
                found[key] = _decisive(inner)
            elif not (key in _OF_EACH_WRITE and trail[-1:] == ("metadata",)):
                found[key] = self._without(inner, here)
        return found

    def _is_left_out(self, trail: tuple[str, ...]) -> bool:
        """Whether a path ends as one that is not recorded."""
        return any(trail[-len(path) :] == path for path in self._paths)


def _naming(new: NewEvent, ref: str) -> list[str]:
    """Return the fields of an event that name a body."""
    return [name for name in new.event.__struct_fields__ if getattr(new.event, name) == ref]


def _without_values(env: Any) -> Any:
    """Return `env` without what its variables hold: names and where they come from. What is not as the API has it is
    left out.
    """
    if not isinstance(env, list):
        return None
    return [
        {key: one[key] for key in ("name", "valueFrom") if key in one} if isinstance(one, dict) else None for one in env
    ]


def _decisive(annotations: Any) -> Any:
    if not isinstance(annotations, dict):
        return None
    return {key: value for key, value in annotations.items() if _is_decisive(key)}


def _is_decisive(key: str) -> bool:
    prefix = key.partition("/")[0] if "/" in key else ""
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in _DECISIVE)
