"""`--config FILE` after a verb that once called a file of its own so: the settings file, as everywhere, or the old
name.

In: what was typed. Out: the settings file in the options, or the verb's own file with a sentence on stderr that says
its new name. Which of the two is meant, the file itself tells: settings have the sections of settings, and nothing
else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from controlplane.cli.options import Options


def formerly_config(field: str, flag: str, type_: click.ParamType[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Give a verb `--config`: the settings file, or, as in version 0.1, what `flag` is called now. It stands above the
    verb's own options.
    """

    def give(verb: Callable[..., Any]) -> Any:
        @functools.wraps(verb)
        def run(*arguments: Any, former: Any = None, **more: Any) -> Any:
            if former is not None:
                if more.get(field) is not None:
                    raise click.UsageError(
                        f"{flag} is given, and --config names a file of the same kind: leave one out"
                    )
                more[field] = former
            return verb(*arguments, **more)

        option = click.Option(
            ["--config", "former"],
            type=type_,
            metavar="FILE",
            help="The settings file (YAML).",
            callback=_told_apart(flag),
        )
        run.__dict__.setdefault("__click_params__", []).append(option)
        return run

    return give


def _told_apart(flag: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def apart(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        if _is_settings(Path(value)):
            context.ensure_object(Options).config = Path(value)
            return None
        click.echo(f"--config is deprecated for this file: say {flag}. --config is the settings file.", err=True)
        return value

    return apart


def _is_settings(path: Path) -> bool:
    """Whether a file has sections of settings and nothing else; one that cannot be read is none."""
    import msgspec
    import yaml

    from controlplane.kube.documents import UNREADABLE
    from controlplane.settings.model import Settings

    try:
        found = yaml.safe_load(path.read_bytes()) if path.is_file() else None
    except (OSError, *UNREADABLE):
        return False
    sections = {one.encode_name for one in msgspec.structs.fields(Settings)}
    return isinstance(found, dict) and bool(found) and found.keys() <= sections
