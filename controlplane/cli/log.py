"""`controlplane log`: what the log keeps of jobs and pods, and for how long. With the rights of the schema's owner."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

from controlplane.cli.frame import Group
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line

_DAYS = re.compile(r"([0-9]{1,6})d")


class Age(click.ParamType[timedelta]):
    """A duration, or days: `30d`."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration."""
        from controlplane import durations

        if isinstance(value, timedelta):
            return value
        if days := _DAYS.fullmatch(value):
            return timedelta(days=int(days[1]))
        try:
            found = durations.parse(value)
        except ValueError as error:
            self.fail(f"{value}: it {error}; or write days, such as 30d", param, ctx)
        if found < timedelta(0):
            self.fail(f"{value}: an age is not negative", param, ctx)
        return found


@click.group(cls=Group)
def log() -> None:
    """Remove stored bodies of jobs and pods, or leave values out of them."""


@log.command("purge-bodies")
@click.option(
    "--older-than", type=Age(), required=True, metavar="AGE", help="Stored, and last named, so long ago: 30d, 12h, 0."
)
@click.option("--namespace", metavar="NAMESPACE", help="Only those that an event of this namespace names.")
@click.pass_obj
def purge_bodies(options: Options, older_than: timedelta, namespace: str | None) -> None:
    """Remove stored bodies; the events that name them stay. Needs the rights of the schema's owner."""
    url = options.database_url()
    from controlplane.log import retention, schema

    schema.check(url)
    purged = retention.purge(url, older_than, namespace)
    if options.output != "table":
        dump(options.output, {"bodies": purged.bodies, "bytes": purged.size})
    else:
        line(f"{purged.bodies} bodies were removed, with {purged.size} bytes of JSON.")


@log.command("redact-bodies")
@click.pass_obj
def redact_bodies(options: Options) -> None:
    """Leave out of all stored bodies what `log.redact` names now. Needs the rights of the schema's owner."""
    url = options.database_url()
    from controlplane.log import retention, schema
    from controlplane.log.redaction import Redaction

    schema.check(url)
    count = retention.redact(url, Redaction(options.settings().log.redact), everything=True)
    if options.output != "table":
        dump(options.output, {"bodies": count})
    else:
        line(f"Values were left out of {count} bodies.")
