"""Reads bodies in Kubernetes' protobuf, in which typed Go clients send built-in kinds, and writes OpenAPI in it.

In: a body of the type application/vnd.kubernetes.protobuf and the message that it should be. Out: the object as JSON
has it; `DecodingError` for what is no such message, and for a field that the tables do not have: nothing is left out
silently. The wire is that of https://protobuf.dev/programming-guides/encoding/."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from controlplane.kube.kinds import Json
from controlplane.simulation.schemas.messages import Field, Message, Messages, kubernetes

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = -62135596800  # Go's time.Time{}, in seconds since 1970
_DEEPEST: Final = 64

Value = int | bytes


class DecodingError(ValueError):
    """A body is not what it should be; the text says where."""


def decode(body: bytes, message: Message) -> Json:
    """Return the object of a body, with apiVersion and kind if it says them."""
    if not body.startswith(_MAGIC):
        prefix = " ".join(str(byte) for byte in _MAGIC)
        raise DecodingError(f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]")
    known = kubernetes()
    unknown = dict(_pairs(body[len(_MAGIC) :], "Unknown"))
    type_meta = _message(known, known["runtime.TypeMeta"], _bytes(unknown.get(1, b""), "typeMeta"), "typeMeta", 0)
    if unknown.get(3):
        raise DecodingError("contentEncoding: encoded bodies are not read")
    return {**type_meta, **decode_message(known, message, _bytes(unknown.get(2, b""), "raw"))}


def decode_message(known: Messages, message: Message, data: bytes) -> Json:
    """Return a message that is in no envelope."""
    return _message(known, message, data, "", 0)


def _message(known: Messages, message: Message, data: bytes, path: str, depth: int) -> Json:
    """Return a message as JSON has it; `path` is where it stands, for what goes wrong."""
    if depth > _DEEPEST:
        raise DecodingError(f"{path}: messages are nested more than {_DEEPEST} deep")
    fields = {field.number: field for field in message.fields}
    found: Json = {}
    for number, value in _pairs(data, path or message.name):
        field = fields.get(number)
        if field is None:
            where = f"{path}: " if path else ""
            raise DecodingError(f"{where}{message.name} has no field {number} here")
        at = f"{path}.{field.name}" if path else field.name
        if field.mapped:
            entry = dict(_pairs(_bytes(value, at), at))
            key = _text(entry.get(1, b""), at)
            found.setdefault(field.name, {})[key] = _one(known, field, entry.get(2, _EMPTY[field.type]), at, depth)
        elif field.repeated:
            found.setdefault(field.name, []).extend(_several(known, field, value, at, depth))
        elif field.inline:
            found |= _message(known, known[field.type], _bytes(value, at), path, depth + 1)
        elif _is_said(field, one := _one(known, field, value, at, depth)):
            found[field.name] = one
    return found


def _is_said(field: Field, value: Any) -> bool:
    """Whether JSON has a field with this value: an empty one only where that is something else than none."""
    return value is not None and bool(value or field.required or field.pointer or field.is_message)


_EMPTY: Final[Mapping[str, Value]] = {"string": b"", "bytes": b"", "Quantity": b""}
"""What a map's entry without a value has, by type: these are the types of the maps that there are."""


def _several(known: Messages, field: Field, value: Value, at: str, depth: int) -> Iterator[Any]:
    """Yield the elements of one occurrence of a list: numbers may be packed."""
    if field.type in _NUMBERS and isinstance(value, bytes):
        place = 0
        while place < len(value):
            number, place = _varint(value, place, at)
            yield _NUMBERS[field.type](number)
    else:
        yield _one(known, field, value, at, depth)


def _one(known: Messages, field: Field, value: Value, at: str, depth: int) -> Any:
    if field.is_message:
        return _message(known, known[field.type], _bytes(value, at), at, depth + 1)
    if field.type in _NUMBERS:
        if not isinstance(value, int):
            raise DecodingError(f"{at}: a {field.type} is no text")
        return _NUMBERS[field.type](value)
    return _TEXTS[field.type](_bytes(value, at), at)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _int32(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _double(value: int) -> float:
    found: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return found


_NUMBERS: Final[Mapping[str, Callable[[int], Any]]] = {
    "int32": _int32,
    "int64": _signed,
    "bool": bool,
    "double": _double,
}


def _text(value: Value, at: str) -> str:
    try:
        return _bytes(value, at).decode()
    except UnicodeDecodeError:
        raise DecodingError(f"{at}: this is no UTF-8") from None


def _encoded(value: bytes, _at: str) -> str:
    return base64.b64encode(value).decode()


def _quantity(value: bytes, at: str) -> str:
    return _text(dict(_pairs(value, at)).get(1, b""), at) or "0"


def _int_or_string(value: bytes, at: str) -> int | str:
    parts = dict(_pairs(value, at))
    number = parts.get(2, 0)
    if not parts.get(1):
        return _int32(number) if isinstance(number, int) else 0
    return _text(parts.get(3, b""), at)


def _time(value: bytes, at: str) -> str | None:
    parts = dict(_pairs(value, at))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise DecodingError(f"{at}: this is no time")
    if not parts or _signed(seconds) == _NEVER:
        return None
    try:
        return (_EPOCH + timedelta(seconds=_signed(seconds), microseconds=nanos // 1000)).isoformat()
    except OverflowError:
        raise DecodingError(f"{at}: {_signed(seconds)} seconds is no time") from None


def _second(value: bytes, at: str) -> str | None:
    found = _time(value, at)
    return f"{found[:19]}Z" if found else None


def _microsecond(value: bytes, at: str) -> str | None:
    found = _time(value, at)
    return f"{found[:19]}.{found[20:26] if found[19] == '.' else '000000'}Z" if found else None


def _raw(value: bytes, at: str) -> Any:
    try:
        return orjson.loads(_bytes(dict(_pairs(value, at)).get(1, b"null"), at))
    except orjson.JSONDecodeError:
        raise DecodingError(f"{at}: this is no JSON") from None


_TEXTS: Final[Mapping[str, Callable[[bytes, str], Any]]] = {
    "string": _text,
    "bytes": _encoded,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _second,
    "MicroTime": _microsecond,
    "RawExtension": _raw,
    "FieldsV1": _raw,
}


# ---------------------------------------------------------------- the wire


def _bytes(value: Value, at: str) -> bytes:
    if not isinstance(value, bytes):
        raise DecodingError(f"{at}: a number is there where a text or a message belongs")
    return value


def _pairs(message: bytes, where: str) -> Iterator[tuple[int, Value]]:
    """Yield the numbers of the fields of a message and what they hold: a number, or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at, where)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(message, at, where)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            length, at = _varint(message, at, where)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise DecodingError(f"{where}: wire type {wire} is in no message of Kubernetes")
        if at + length > len(message):
            raise DecodingError(f"{where}: a field is cut off")
        held = message[at : at + length]
        yield key >> 3, held if wire == _BYTES else int.from_bytes(held, "little")
        at += length


def _varint(message: bytes, at: int, where: str) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise DecodingError(f"{where}: a number is cut off")


def encode(known: Messages, message: Message, obj: Json) -> bytes:
    """Return a message of texts, booleans and messages; KeyError for a field that it does not have."""
    fields = {field.name: field for field in message.fields}
    parts = []
    for name, value in obj.items():
        field = fields[name]
        for one in value if field.repeated else [value]:
            if field.type == "bool":
                parts.append(_number(field.number << 3 | _VARINT) + _number(int(one)))
                continue
            data = encode(known, known[field.type], one) if field.is_message else str(one).encode()
            parts.append(_number(field.number << 3 | _BYTES) + _number(len(data)) + data)
    return b"".join(parts)


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
