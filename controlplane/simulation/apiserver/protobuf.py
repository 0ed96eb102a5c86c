"""Reads the two reviews of authorization.k8s.io/v1 out of Kubernetes' protobuf, in which kubectl sends them.

In: a body of the type application/vnd.kubernetes.protobuf. Out: the object as JSON has it, with the fields that are read
here. The numbers are those of `generated.proto` in k8s.io/api/authorization/v1 and k8s.io/apimachinery/pkg/runtime;
the wire is that of https://protobuf.dev/programming-guides/encoding/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.kube.kinds import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_RAW, _SPEC = 2, 2
_RESOURCE = {1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"}
_PATH = {1: "path", 2: "verb"}
_ATTRIBUTES: Mapping[int, tuple[str, Mapping[int, str]]] = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", _PATH),
}
_USER = 3


def access_review(body: bytes) -> Json:
    """Return the review; `ValueError` for a body that is none."""
    if not body.startswith(_MAGIC):
        raise ValueError("no Kubernetes protobuf")
    raw = dict(_fields(body[len(_MAGIC) :])).get(_RAW, b"")
    spec: dict[str, Any] = {}
    for number, value in _fields(dict(_fields(raw)).get(_SPEC, b"")):
        if number in _ATTRIBUTES:
            name, fields = _ATTRIBUTES[number]
            spec[name] = {fields[one]: text.decode() for one, text in _fields(value) if one in fields and text}
        elif number == _USER:
            spec["user"] = value.decode()
    return {"spec": spec}


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that have a length: texts and messages. Numbers are left out."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field is cut off")
            yield key >> 3, message[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {wire} is in no review")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number is cut off")
