"""Reads what is known of the fields of Kubernetes' objects: names, types, protobuf numbers, merge keys, descriptions.

In: the tables beside this module. Out: `Messages`, from which bodies in protobuf are decoded, bodies in JSON are
checked and OpenAPI documents are made. The tables hold facts of the kinds' own definitions; the sentences are ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from controlplane.kube.kinds import Kind

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `type` is a scalar, a special type such as `Quantity`, or `package.Message`.

    `number` is 0 where there is no protobuf. `required`: JSON has it even if it is empty; `pointer`: if it was sent.
    `merge_key` is that of a strategic merge patch, "" where the list is replaced; `retain_keys`: it names what
    stays."""

    name: str
    type: str
    number: int = 0
    repeated: bool = False
    mapped: bool = False
    required: bool = False
    pointer: bool = False
    inline: bool = False
    merge_key: str = ""
    retain_keys: bool = False

    @property
    def is_message(self) -> bool:
        """Whether the type is another message."""
        return "." in self.type


@dataclass(frozen=True, slots=True)
class Message:
    """A message or a struct: `name` is `package.Message`, `definition` its name in an OpenAPI document."""

    name: str
    definition: str
    api_version: str
    fields: tuple[Field, ...]


class Messages:
    """The messages of some tables, by name and by kind."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        self._messages = messages
        self._kinds = {(one.api_version, one.name.partition(".")[2]): one for one in messages.values()}

    def __getitem__(self, name: str) -> Message:
        return self._messages[name]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def of(self, kind: Kind) -> Message | None:
        """Return the message of a kind, None if its fields are not known."""
        return self._kinds.get((kind.api_version, kind.kind))

    def fields(self, message: Message) -> Iterator[Field]:
        """Yield the fields of a message as JSON has them: those of an inline message stand among its own."""
        for field in message.fields:
            if field.inline:
                yield from self.fields(self[field.type])
            else:
                yield field

    def reachable(self, message: Message) -> list[Message]:
        """Return a message and every one that it is made of, inline ones left out, each once."""
        found: dict[str, Message] = {}
        todo = [message]
        while todo:
            one = todo.pop()
            if one.name not in found:
                found[one.name] = one
                todo += [self[field.type] for field in self.fields(one) if field.is_message]
        return list(found.values())


@cache
def kubernetes() -> Messages:
    """Return the built-in kinds and Kueue's, with all that they are made of."""
    return _read("builtin.txt", "kueue.txt")


@cache
def openapi() -> Messages:
    """Return the messages of an OpenAPI v2 document in protobuf."""
    return _read("openapi.txt")


@cache
def descriptions() -> Mapping[str, str]:
    """Return what is said of messages (`batch.Job`) and of their fields (`batch.JobSpec.parallelism`)."""
    lines = (_FOLDER / "descriptions.txt").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def _read(*names: str) -> Messages:
    found: dict[str, Message] = {}
    package = definitions = api_version = ""
    for line in _lines("\n".join((_FOLDER / name).read_text() for name in names)):
        if line.startswith("package "):
            _, package, definitions, api_version = line.split()
            continue
        message, _, body = line.partition(":")
        name = f"{package}.{message}"
        fields = tuple(_field(text, package) for text in body.split(","))
        found[name] = Message(name, f"{definitions}.{message}", api_version, fields)
    return Messages(found)


def _lines(text: str) -> Iterator[str]:
    """Yield what a table says, with the lines that go on joined to those that begin."""
    whole = ""
    for line in text.splitlines():
        if line.startswith("  "):
            whole += line
        else:
            if whole:
                yield whole
            whole = "" if line.startswith("#") else line
    if whole:
        yield whole


def _field(text: str, package: str) -> Field:
    words = text.split()
    number = int(words.pop(0)) if words[0].isdigit() else 0
    name, spelled, *marks = words
    bare = spelled.rstrip("!?")
    repeated, mapped = bare.startswith("[]"), bare.startswith("{}")
    type_ = bare[2:] if repeated or mapped else bare
    # Messages are spelled like Job and Quantity alike; those of the same package have no dot.
    if "." not in type_ and type_[0].isupper() and type_ not in SPECIAL:
        type_ = f"{package}.{type_}"
    return Field(
        name, type_, number, repeated, mapped,
        required=spelled.endswith("!"), pointer=spelled.endswith("?"), inline="inline" in marks,
        merge_key=next((mark[3:] for mark in marks if mark.startswith("by:")), ""), retain_keys="keep" in marks,
    )  # fmt: skip


SPECIAL: Final = frozenset({"Quantity", "IntOrString", "Time", "MicroTime", "RawExtension", "FieldsV1"})
"""Messages that JSON has as something else: a text, a number, a time, or any object."""
