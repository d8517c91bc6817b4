"""What every command shares: the options that name the lake, and the lake itself."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from deltasql.cli.failures import FAILED, PipeClosedError
from deltasql.cli.output import Format, Output
from deltasql.errors import ConfigError, DeltaSqlError

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.settings.sources import Configuration

Url = Annotated[
    str | None,
    typer.Option("--url", help="Database of the lake, e.g. sqlite:///lake.db.", metavar="URL"),
]
Location = Annotated[
    str | None,
    typer.Option("--location", help="Where new tables go, e.g. s3://bucket/lake.", metavar="URI"),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", help="Profile of deltasql.toml to use.", metavar="NAME"),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file instead of deltasql.toml.", metavar="FILE"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting, e.g. mirror.mode=async.", metavar="KEY=VALUE"),
]
OutputFormat = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="text for people, json for programs.", metavar="FORMAT"),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error, and log everything.")
]
SHARED: dict[str, tuple[Any, Any]] = {
    "url": (Url, None),
    "location": (Location, None),
    "profile": (Profile, None),
    "config": (Config, None),
    "settings": (Settings, None),
    "output": (OutputFormat, None),
    "debug": (Debug, False),
}


@dataclass
class Session:
    """One run of the program; options given to a command win over those before it."""

    url: str | None = field(default=None, repr=False)
    location: str | None = None
    profile: str | None = None
    config: Path | None = None
    settings: list[str] = field(default_factory=list, repr=False)
    output: Format = Format.TEXT
    debug: bool = False
    # How to go on, for whoever interrupts.
    resume: str = ""

    def take(self, **given: Any) -> None:
        """Take options that were given."""
        self.settings += given.pop("settings") or []
        for name, value in given.items():
            if value not in (None, False):
                setattr(self, name, value)

    @property
    def out(self) -> Output:
        """Where answers go."""
        return Output(self.output)

    def configuration(self) -> Configuration:
        """The configuration in force."""
        from deltasql.settings.sources import resolve

        arguments: dict[str, Any] = dict(_pair(text) for text in self.settings)
        if self.debug:
            arguments.setdefault("log.level", "debug")
        arguments |= {"url": self.url, "location": self.location}
        return resolve(arguments, profile=self.profile, file=self.config)

    @contextmanager
    def lake(self, *, creating: bool = False, log_level: str = "warning") -> Iterator[Lake]:
        """The lake. Only who says so creates or migrates its schema: a typing error in a URL
        must not make a new lake.
        """
        from deltasql.lake.catalog import open_lake
        from deltasql.telemetry import logs, tracing

        configuration = self.configuration().defaulting(
            {"sql.schema": "create" if creating else "error", "log.level": log_level}
        )
        settings = configuration.settings
        logs.configure(form=settings.log_format, level=settings.log_level)
        if settings.telemetry_traces == "on":
            tracing.switch_on(exporting=True)
        with open_lake(configuration) as lake:
            yield lake

    def confirm(self, question: str) -> None:
        """Ask; end the command unless the answer is yes."""
        try:
            agreed = typer.confirm(question)
        except typer.Abort:
            if sys.stdin.isatty():
                raise
            print(file=sys.stderr)
            raise ConfigError(
                "this needs confirmation, so nothing was done",
                cause="there is no terminal to ask on",
                remedy="pass --yes",
            ) from None
        if not agreed:
            print("nothing was done", file=sys.stderr)
            raise typer.Exit(FAILED)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        # It is not shown: it may be a secret whose key was forgotten.
        raise ConfigError(
            "--set takes KEY=VALUE",
            cause="one of the given settings has no =",
            remedy="e.g. mirror.mode=async",
        )
    return key.strip(), value


def command(
    app: typer.Typer, name: str, *, examples: Sequence[str], resume: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function that takes a session first a command, with the shared options.

    `resume` says how one goes on after an interruption.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(function).parameters.values())[1:]
        ]
        shared = [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for key, (annotation, default) in SHARED.items()
        ]
        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )

        @functools.wraps(function)
        def run(context: typer.Context, **given: Any) -> None:
            session = context.find_root().obj
            session.take(**{key: given.pop(key) for key in SHARED})
            session.resume = resume
            try:
                function(session, **given)
            except BrokenPipeError:
                raise PipeClosedError from None

        parameters = [context, *own, *shared]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        del run.__wrapped__
        text = inspect.getdoc(function) or ""
        shown = "\n".join(f"  {example}" for example in examples)
        from deltasql.cli.help import Command

        app.command(name, cls=Command, help=f"{text}\n\n\b\nExamples:\n{shown}")(run)
        return function

    return register


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tables that begin so; whatever goes wrong, nothing."""
    session = Session()
    session.take(**{key: context.params.get(key) for key in SHARED})
    try:
        with session.lake(log_level="error") as lake:
            return [table.name for table in lake.tables() if table.name.startswith(incomplete)]
    except DeltaSqlError:
        return []


TableName = Annotated[
    str,
    typer.Argument(
        help="Name of the table.",
        metavar="TABLE",
        autocompletion=complete_table,
        show_default=False,
    ),
]
AnyTable = Annotated[
    str | None,
    typer.Argument(
        help="Which table; all by default.", metavar="TABLE", autocompletion=complete_table
    ),
]
# Of what deletes for good.
DryRun = Annotated[
    bool, typer.Option("--dry-run/--delete", help="Only report, or delete for good.")
]
EnforceRetention = Annotated[
    bool,
    typer.Option(
        "--enforce-retention/--no-enforce-retention",
        help="Refuse a shorter retention than the table's own.",
    ),
]
