"""Answers line by line: a bad one is answered with what is wrong with it, and never stops the others.

In: the bytes of one JSON line and its number. Out: whether it could be evaluated, and what to print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.controllers.scheduling.evaluate.answer import answer, decide
from controlplane.controllers.scheduling.evaluate.request import Question, read
from controlplane.controllers.scheduling.evaluate.text import told
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.kube.kinds import Json

Profiles = Mapping[str, Framework]

_BOM = b"\xef\xbb\xbf"
_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*[,}]')


def said(text: bytes, number: int, profiles: Profiles | None = None) -> tuple[bool, bytes]:
    """Return the answer to a line as JSON: of the default profile, or of the pod's own among `profiles`, the first if
    it names none.
    """
    question, problem = _question(text, number, profiles)
    if question is None:
        return False, msgspec.json.encode(problem)
    try:
        return True, msgspec.json.encode(answer(question, _profile(question, profiles)))
    except Exception as error:
        return False, msgspec.json.encode({"id": question.id, "error": _unexpected(error)})


def explained(text: bytes, number: int, profiles: Profiles | None = None) -> tuple[bool, Iterable[str]]:
    """Return the answer to a line in sentences; `profiles` as in `said`."""
    question, problem = _question(text, number, profiles)
    if question is None:
        label = "" if problem["id"] is None else f"[{problem['id']}] "
        return False, [f"{label}line {number} cannot be evaluated: {problem['error']}"]
    try:
        framework = _profile(question, profiles) or default_framework(question.args)
        return True, list(told(question, decide(framework, question)))
    except Exception as error:
        return False, [f"line {number} cannot be evaluated: {_unexpected(error)}"]


def _profile(question: Question, profiles: Profiles | None) -> Framework | None:
    if not profiles:
        return None
    return profiles.get(question.pod.scheduler_name) or next(iter(profiles.values()))


def _question(text: bytes, number: int, profiles: Profiles | None) -> tuple[Question | None, Json]:
    ident: Any = None
    try:
        obj = msgspec.json.decode(text.removeprefix(_BOM))
        ident = obj.get("id") if isinstance(obj, dict) else None
        return read(obj, _names(profiles) if profiles else None), {}
    except msgspec.DecodeError as error:
        return None, {"id": _salvaged(text), "error": f"line {number}: not JSON: {error}"}
    except UnicodeDecodeError as error:
        return None, {"id": _salvaged(text), "error": f"line {number}: not UTF-8: {error.reason}"}
    except RecursionError:
        return None, {"id": _salvaged(text), "error": f"line {number}: nested too deep to be read"}
    except ValueError as error:  # a Misfit names the object and the field
        return None, {"id": ident, "error": str(error)}
    except (LookupError, TypeError, AttributeError) as error:
        return None, {"id": ident, "error": _unexpected(error)}


def _salvaged(text: bytes) -> Any:
    """Return the id of a line that cannot be decoded, if it stands first; None otherwise."""
    found = _FIRST.match(text.removeprefix(_BOM))
    try:
        return msgspec.json.decode(found[1]) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _names(profiles: Profiles) -> frozenset[str]:
    return frozenset(
        plugin.name for framework in profiles.values() for plugins in framework.points.values() for plugin in plugins
    )


def _unexpected(error: Exception) -> str:
    """Say what nobody foresaw; the stream goes on."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
