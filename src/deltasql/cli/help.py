"""How help looks: commands in groups, and the options that all commands share named once."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from deltasql.cli.session import SHARED

# The commands, by what somebody wants to do.
GROUPS: Final = {
    "Begin": ("init", "demo", "doctor", "config"),
    "Look": ("tables", "show", "scan", "files", "history", "audit"),
    "Change": ("alter", "restore", "drop", "undrop", "purge"),
    "Keep tidy": ("optimize", "vacuum", "expire", "leftovers", "maintenance"),
    "Come and go": ("adopt", "release", "recover"),
    "Operate": ("mirror", "db", "serve", "token"),
}


class Program(TyperGroup):
    """The program itself."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - an override
        """List the commands, group by group, all summaries in one column."""
        widest = max(map(len, self.commands))
        room = formatter.width - widest - 6
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(widest), self.commands[name].get_short_help_str(room))
                        for name in names
                    ]
                )


class Command(TyperCommand):
    """A command: its own arguments and options in full, the shared options by name."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The line of usage, as manual pages have it."""
        arguments = [_usage(item) for item in self.get_params(ctx) if _is_argument(item)]
        return [self.options_metavar or "", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, then the options."""
        shown = [item for item in self.get_params(ctx) if item.name not in SHARED]
        arguments = [(_name(item), _told(item)) for item in shown if _is_argument(item)]
        options = [item.get_help_record(ctx) for item in shown if not _is_argument(item)]
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl([record for record in records if record])
        shared = [item.get_help_record(ctx) for item in self.get_params(ctx) if item.name in SHARED]
        with formatter.section("Options of every command (see deltasql --help)"):
            formatter.write_text(
                ", ".join(record[0].split(", ")[-1] for record in shared if record)
            )
            formatter.write("\n")


def _is_argument(item: Any) -> bool:
    return bool(item.param_type_name == "argument")


def _name(item: Any) -> str:
    return str(item.metavar or item.name.upper()).removesuffix("...")


def _usage(item: Any) -> str:
    name = _name(item) if item.required else f"[{_name(item)}]"
    return name if item.nargs == 1 else f"{name}..."


def _told(item: Any) -> str:
    default = item.default if item.show_default else None
    return item.help if default in (None, "") else f"{item.help}  [default: {default}]"
