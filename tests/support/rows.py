"""A table of rows as one test, where `pytest.mark.parametrize` would make a test of each: for tables of many brief
rows.

In: what `parametrize` takes. Out: one test that tries every row, and names those that fail. A row as a test of its own
costs milliseconds in each process that collects it, in the one that runs it and in the one that is told; most rows take
a tenth of that themselves. What rows must not share (a database, a folder, what is patched) is for `parametrize`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
_TOLD = 20  # failures that are told in full


def each(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] | None = None
) -> Callable[[Test], Test]:
    """Return a decorator that calls a test with each of the values, all of them, and fails if any call does."""
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    rows = list(_rows(words, values, ids))

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def tried(*own: Any, **given: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            skipped: list[str] = []
            for name, row in rows:
                try:
                    test(*own, **given, **dict(zip(words, row, strict=True)))
                except pytest.skip.Exception as error:
                    skipped.append(str(error))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((name, error))
            if failed:
                told = "\n".join(f"[{name}] {type(error).__name__}: {error}" for name, error in failed[:_TOLD])
                more = f"\nand {len(failed) - _TOLD} more" if len(failed) > _TOLD else ""
                raise AssertionError(f"{len(failed)} of {len(rows)} rows fail:\n{told}{more}") from failed[0][1]
            if len(skipped) == len(rows):
                pytest.skip(skipped[0] if skipped else "there is no row")

        asked = inspect.signature(test)
        left = [parameter for name, parameter in asked.parameters.items() if name not in words]
        tried.__signature__ = asked.replace(parameters=left)  # type: ignore[attr-defined]
        return tried

    return decorate


def _rows(
    words: Sequence[str], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] | None
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the name and the values of each row."""
    said = None if ids is None or callable(ids) else list(ids)
    for number, value in enumerate(values):
        name = said[number] if said is not None else None
        if isinstance(value, type(pytest.param())):
            assert not value.marks, "a row is no test of its own that could be marked"
            row, name = value.values, value.id or name
        else:
            row = (value,) if len(words) == 1 else tuple(value)
        yield name or "-".join(_name(one, ids if callable(ids) else None) for one in row), row


def _name(value: Any, ids: Callable[[Any], object] | None) -> str:
    told = ids(value) if ids is not None else None
    return str(told) if told is not None else str(getattr(value, "__name__", None) or repr(value))[:80]
