"""Keeps the test modules as pytest loads them, with their assertions rewritten, before the processes of a run start:
each of them would rewrite all of them, at the same time, where nothing is kept yet.

In: `python -m tests.support.rewriting PART PARTS`. Out: files beside what Python keeps of a module. pytest has no
command for it; where its own functions for it have other names, each process rewrites as before."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def modules() -> list[Path]:
    """Return the modules whose assertions pytest rewrites, the largest first."""
    found = [path for path in TESTS.rglob("*.py") if path.name.startswith("test_") or path.name == "conftest.py"]
    return sorted(found, key=lambda path: (-path.stat().st_size, str(path)))


def rewrite(path: Path) -> Path | None:
    """Keep one module; return where, None where that cannot be done."""
    try:
        from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc_fp, get_cache_dir, try_makedirs
    except ImportError:
        return None
    folder = get_cache_dir(path)
    kept = folder / (path.name[:-3] + PYC_TAIL)
    if not try_makedirs(folder) or kept.exists():
        return None
    source_hash, code = _rewrite_test(path, None)  # no option of ours changes it
    part = kept.with_name(f"{kept.name}.part")
    with part.open("wb") as file:
        _write_pyc_fp(file, source_hash, code)
    part.replace(kept)
    return kept


def main(part: int, parts: int) -> None:
    """Keep every so many of them."""
    for path in modules()[part::parts]:
        rewrite(path)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
