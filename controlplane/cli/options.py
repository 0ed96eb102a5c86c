"""What was said on the command line for every verb: which settings file, which database, which form of output.

In: options, before the verb or after it; the later wins. Out: an `Options`. What only some verbs have, such as a
namespace or an order of rows, is said once as well: by the decorators below, which a verb takes. Settings are read when
a verb asks for them, not before, so that `version` works with broken ones."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from controlplane.cli.errors import CommandFailure, Exit

if TYPE_CHECKING:
    from controlplane.kube.selectors import LabelSelector
    from controlplane.settings import Resolved, Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LARGEST = 2**63 - 1
"""The largest number that the log and PostgreSQL count with."""
FORMATS = ("table", "wide", "json", "yaml")
LISTED = ("name", "csv")
"""The forms that a verb has only for a list of things."""
JSONPATH = "jsonpath="


class Whole(click.IntRange):
    """A whole number between two; click calls it an "integer range" where something else is given."""

    name = "whole number"


class OutputForm(click.ParamType[str]):
    """What may be said to `-o`: one of `FORMATS` or `LISTED`, `more` that a verb has, or `jsonpath=TEMPLATE`."""

    name = "form"

    def __init__(self, *more: str) -> None:
        self.choices = (*FORMATS, *LISTED, *more)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the form; what is none, or a template that cannot be read, is a usage error."""
        form = value.removeprefix("=")  # of `-o=json`, as kubectl takes it
        if form.startswith(JSONPATH):
            from controlplane.cli.jsonpath import JsonPathError, parse

            try:
                parse(form.removeprefix(JSONPATH))
            except JsonPathError as error:
                self.fail(str(error), param, ctx)
            return form
        if form not in self.choices:
            near = difflib.get_close_matches(form, (*self.choices, "jsonpath=TEMPLATE"), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else "."
            known = ", ".join(f"'{one}'" for one in (*self.choices, "jsonpath=TEMPLATE"))
            self.fail(f"'{form}' is not one of {known}{hint}", param, ctx)
        return form

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the forms that begin so."""
        return [CompletionItem(one) for one in (*self.choices, JSONPATH) if one.startswith(incomplete)]


@dataclass(slots=True)
class Options:
    """The global options, and those of the decorators below. `controllers` is what `run` was told to host; `output` is
    `table` or the form for programs, `wide` whether the table is to have all columns, `output_said` whether anybody
    said which form it is to be.

    `more` are settings that a verb's own options give: key → (value, option). `namespace` is that of a name that has
    none, `sort_by` the field by which a list is ordered, `local_time` whether tables have the zone of this machine.
    """

    config: Path | None = None
    database: str | None = None
    controllers: str | None = None
    output: str = "table"
    wide: bool = False
    output_said: bool = False
    namespace: str | None = None
    no_headers: bool = False
    sort_by: str | None = None
    local_time: bool = False
    more: dict[str, tuple[str, str]] = field(default_factory=dict)

    def resolve(self) -> Resolved:
        """Return the effective settings with their origins; `SettingsError` with every problem."""
        from controlplane.settings import resolve

        given = {} if self.database is None else {"database.url": (self.database, "--database-url")}
        if self.controllers is not None:
            given["run.controllers"] = (self.controllers, "--controllers")
        return resolve(self.config, os.environ, given | self.more)

    def settings(self) -> Settings:
        """Return the effective settings; `SettingsError` with every problem."""
        return self.resolve().settings

    def database_url(self) -> str:
        """Return the database's URL with its secret; `CommandFailure` if none was set."""
        url = self.settings().database.url
        if not url:
            raise CommandFailure(
                "no database is set: give --database-url, CONTROLPLANE_DATABASE_URL, or database.url in the"
                " settings file",
                Exit.CONFIGURATION,
            )
        return url.reveal()


def parameters() -> list[click.Parameter]:
    """Return the global options, for the group and for each verb."""
    return [
        _option(
            "config",
            "--config",
            "The settings file (YAML).",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
        ),
        _option(
            "database",
            "--database-url",
            "The database of the log: postgresql://USER:PASSWORD@HOST:PORT/NAME.",
            metavar="URL",
        ),
        output_option("table, wide, json, yaml, jsonpath=TEMPLATE; of lists also name and csv."),
    ]


def output_option(text: str, *more: str) -> click.Option:
    """Return the option `-o`, with more forms that a verb has."""
    return _option("output", "-o", f"The form of the output: {text}", type=OutputForm(*more), metavar="FORM")


def output_forms(*more: str) -> Callable[[Decorated], Decorated]:
    """Give a verb an option `-o` with more forms."""
    return _with(output_option(f"table, {', '.join(more)}, json, yaml, csv or jsonpath=TEMPLATE.", *more))


def listing(*forms: str) -> Callable[[Decorated], Decorated]:
    """Give a verb that prints a list the options of every list, and those of `LISTED` that it has."""
    order = _option("sort_by", "--sort-by", "Order by this field of the JSON, such as since.", metavar="FIELD")

    def give(verb: Decorated) -> Decorated:
        verb.__dict__["forms"] = frozenset(forms)
        return _with(order)(table(verb))

    return give


def table(verb: Decorated) -> Decorated:
    """Give a verb that prints tables the options of every table."""
    headings = _option("no_headers", "--no-headers", "No headings above the rows.", is_flag=True)
    local = _option("local_time", "--local-time", "Tables have this machine's time, not UTC.", is_flag=True)
    return _with(headings)(_with(local)(verb))


def named(verb: Decorated) -> Decorated:
    """Give a verb that takes a name the option `-n`: the namespace of a name that has none."""
    text = "The namespace of the name, which then may be without one."
    return _with(_option("namespace", "-n", text, metavar="NS", shell_complete=names_of("namespaces")))(verb)


def namespaced(verb: Decorated) -> Decorated:
    """Give a verb that prints a list `-n` and `-A`; it gets `namespace`, None for all."""

    def one_only(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and context.params.get("namespace"):
            raise click.UsageError("-n and -A exclude each other")

    several = click.Option(
        ["-A", "--all-namespaces"], is_flag=True, expose_value=False, callback=one_only,
        help="Those of all namespaces, as without -n.",
    )  # fmt: skip
    only = click.Option(
        ["-n", "--namespace", "namespace"], metavar="NS", is_eager=True, help="Only those of a namespace.",
        shell_complete=names_of("namespaces"),
    )  # fmt: skip
    return _with(only)(_with(several)(verb))


def on_cluster(verb: Decorated) -> Decorated:
    """Give a verb that prints a list `--cluster`."""
    return click.option(
        "--cluster", metavar="NAME", shell_complete=names_of("clusters"), help="Only those on a cluster."
    )(verb)


def in_queue(verb: Decorated) -> Decorated:
    """Give a verb that prints a list `--queue`."""
    return click.option(
        "--queue", metavar="QUEUE", shell_complete=names_of("localqueues"),
        help="Only those of a LocalQueue: its name, or NAMESPACE/NAME.",
    )(verb)  # fmt: skip


def selected(text: str) -> LabelSelector:
    """Return a label selector as it was typed after `-l`; usage error for what is none."""
    from controlplane.kube.selectors import InvalidSelector, parse_selector

    try:
        return parse_selector(text, "-l")
    except InvalidSelector as error:
        raise click.UsageError(str(error)) from None


def names_of(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what offers the names of `workloads`, `namespaces`, `clusters` or `localqueues` at a tab."""

    def offer(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from controlplane.cli.offered import offered

        return offered(what, context, incomplete)

    return offer


def words_of(*words: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what offers some words at a tab."""

    def offer(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in words if word.startswith(incomplete)]

    return offer


def _with(option: click.Option) -> Callable[[Decorated], Decorated]:
    def give(verb: Decorated) -> Decorated:
        # Where click's own decorators keep what they give, until `click.command` makes the verb.
        verb.__dict__.setdefault("__click_params__", []).append(option)
        return verb

    return give


def current() -> Options:
    """Return what was said to the verb that runs; the defaults outside of one."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Options) if context is not None else None
    return found or Options()


def _option(field: str, flag: str, text: str, **more: Any) -> click.Option:
    long = {"-o": ["--output"], "-n": ["--namespace"]}
    flags = [flag, *long.get(flag, [])]
    return click.Option([*flags, field], help=text, expose_value=False, callback=_remember(field), **more)


def _remember(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        options = context.ensure_object(Options)
        if value is None or context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT:
            return
        if field == "output":
            options.output_said = True
            options.wide = value == "wide"
            value = "table" if value in ("wide", "text") else value
        setattr(options, field, value)

    return remember
