"""Between typed events and the JSON in the log: strict both ways, and patient with what it does not know.

In: the event classes that the capabilities declare. Out: (type, schema, JSON bytes) and back. An event with an unknown
type, a schema newer than ours or fields that do not fit comes back as `Unknown`: the log keeps it, the reader counts
it, the stream goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from controlplane.log.event import Event, Unknown

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class Codec:
    """The known event types. `upcasters[(type, n)]` turns the JSON of schema n into that of n + 1; pure, chained."""

    def __init__(self, types: Iterable[type[Event]], upcasters: dict[tuple[str, int], Upcaster] | None = None) -> None:
        self._types: dict[str, type[Event]] = {}
        for event_type in types:
            if event_type.__name__ in self._types:
                raise ValueError(f"two event types are called {event_type.__name__}")
            self._types[event_type.__name__] = event_type
        self._decoders = {name: msgspec.json.Decoder(event_type) for name, event_type in self._types.items()}
        self._names = {event_type: (name, event_type.SCHEMA) for name, event_type in self._types.items()}
        self._upcasters = upcasters or {}
        self._encode = msgspec.json.Encoder().encode

    @property
    def types(self) -> dict[str, type[Event]]:
        """The event classes by name."""
        return dict(self._types)

    def encode(self, event: Event) -> tuple[str, int, bytes]:
        """Return type, schema and JSON of an event; `TypeError` if its type was not declared."""
        known = self._names.get(type(event))
        if known is None:
            raise TypeError(f"event type {type(event).__name__} is not registered with this codec")
        return *known, self._encode(event)

    def decode(self, name: str, schema: int, data: str | bytes) -> Event | Unknown:
        """Return the event, brought up to the newest schema, or `Unknown` with the reason."""
        event_type = self._types.get(name)
        if event_type is None:
            return Unknown(name, schema, data)
        try:
            if schema == event_type.SCHEMA:
                return self._decoders[name].decode(data)
            if schema > event_type.SCHEMA:
                return Unknown(name, schema, data, f"schema {schema} is newer than {event_type.SCHEMA}")
            raw = msgspec.json.decode(data, type=dict[str, Any])
            for step in range(schema, event_type.SCHEMA):
                upcast = self._upcasters.get((name, step))
                if upcast is None:
                    return Unknown(name, schema, data, f"no upcaster for {name} schema {step}")
                try:
                    raw = upcast(raw)
                except Exception as error:
                    return Unknown(name, schema, data, f"the upcaster of {name} schema {step} failed: {error!r}")
            return msgspec.convert(raw, event_type)
        except msgspec.MsgspecError as error:
            return Unknown(name, schema, data, str(error))
