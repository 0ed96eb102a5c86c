"""The shape of the command line: groups that import their verbs late, and verbs that take the global options."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from controlplane.cli.options import FORMATS, LISTED, Options, parameters

_NEAR = 0.6  # how alike a verb has to be to a word, of 1, to be offered in its place


class CommandEntry(NamedTuple):
    """Where a verb is (`module:command`), and its line in the help, which must be the first one of its docstring."""

    target: str
    summary: str


class Verb(click.Command):
    """A command that takes the global options after its name as well: `@click.command(cls=Verb)`.

    An option of its own with the same flag takes the place of the global one, which can still be said before the verb.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        own = {flag for parameter in self.params for flag in parameter.opts}
        self.params.extend(parameter for parameter in parameters() if not own & set(parameter.opts))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a form of output that it does not have is refused before anything is done."""
        form = ctx.ensure_object(Options).output
        if form in LISTED and form not in self.forms:
            has = ", ".join([*FORMATS, "jsonpath=TEMPLATE", *sorted(self.forms)])
            raise click.UsageError(
                f"-o {form} is for lists, and this verb prints none of that form: choose one of {has}"
            )
        return super().invoke(ctx)

    @property
    def forms(self) -> frozenset[str]:
        """Those of `LISTED` that the verb has."""
        return getattr(self.callback, "forms", frozenset())


class CommandGroup(click.Group):
    """A group with the global options; `verbs` are imported when called. Verbs of its own are made with
    `@group.command(...)`. `meant` says of words that are no verbs here, such as kubectl's, what to do instead.
    """

    command_class = Verb

    def __init__(
        self,
        *arguments: Any,
        verbs: Mapping[str, CommandEntry] | None = None,
        meant: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.verbs = dict(verbs or {})
        self.meant = dict(meant or {})
        self.params.extend(parameters())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments, each of which has to be a text: nothing has a name that is not UTF-8, and no message
        could repeat it.
        """
        for text in args:
            try:
                text.encode()
            except UnicodeEncodeError:
                ctx.fail(f"an argument is not UTF-8: {text.encode(errors='backslashreplace').decode()}")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the registry, then the group's own."""
        return [*self.verbs, *sorted(super().list_commands(ctx))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb's module and return its command; None if there is no such verb."""
        entry = self.verbs.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one is answered with the nearest known name."""
        if args and not args[0].startswith("-") and args[0] not in (known := self.list_commands(ctx)):
            close = difflib.get_close_matches(args[0], known, n=1, cutoff=_NEAR)
            hint = f"did you mean `{ctx.command_path} {close[0]}`?" if close else f"there are {', '.join(known)}."
            hint = self.meant.get(args[0].lower(), hint)
            ctx.fail(f'there is no command "{args[0]}": {hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        rows = [(name, entry.summary) for name, entry in self.verbs.items()]
        rows += [(name, self.commands[name].get_short_help_str(100)) for name in sorted(self.commands)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
