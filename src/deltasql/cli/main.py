"""The program: its commands put together, and how it ends."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer

from deltasql.cli.commands import (
    adoption,
    altering,
    configuring,
    database,
    demo,
    doctor,
    dropping,
    looking,
    maintaining,
    maintenance,
    mirror,
    retaining,
    serving,
)
from deltasql.cli.failures import (
    DONE,
    FAILED,
    INTERRUPTED,
    PIPE_CLOSED,
    USAGE,
    PipeClosedError,
    report,
)
from deltasql.cli.help import Program
from deltasql.cli.session import (
    Config,
    Debug,
    Location,
    OutputFormat,
    Profile,
    Session,
    Settings,
    Url,
)
from deltasql.cli.text import printable
from deltasql.errors import DeltaSqlError
from deltasql.secrecy import redacted
from deltasql.version import __version__

# Typer brings its own click; these are its errors of usage, under whatever name.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="deltasql",
    cls=Program,
    help="Delta Lake tables whose transaction log is a SQL database.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 found drift or lag.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(value: bool) -> None:
    if value:
        print(f"deltasql {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    *,
    url: Url = None,
    location: Location = None,
    profile: Profile = None,
    config: Config = None,
    settings: Settings = None,
    output: OutputFormat = None,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Delta Lake tables whose transaction log is a SQL database."""
    del version
    context.obj.take(
        url=url,
        location=location,
        profile=profile,
        config=config,
        settings=settings,
        output=output,
        debug=debug,
    )


for register in (
    configuring.register,
    looking.register,
    adoption.register,
    dropping.register,
    maintaining.register,
    retaining.register,
    serving.register,
    doctor.register,
):
    register(app)
for group in (altering.app, mirror.app, maintenance.app, database.app, configuring.app):
    app.add_typer(group)
demo.register(app)


def main() -> None:
    """Run the program on this process's arguments, and end the process."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _pipe_closed()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the program; returns its exit code."""
    session = Session()
    try:
        code = app(arguments, standalone_mode=False, obj=session, prog_name="deltasql")
    except _UsageError as error:
        _show_usage(error)
        return USAGE
    except PipeClosedError:
        return _pipe_closed()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except DeltaSqlError as error:
        report(error, as_json=session.out.is_json, debug=session.debug)
        return FAILED
    except Exception as error:  # noqa: BLE001 - a bug is told as one, see `report`
        report(error, as_json=session.out.is_json, debug=session.debug)
        return FAILED
    if code == INTERRUPTED:
        told = f"; {session.resume}" if session.resume else ""
        print(f"interrupted; what was committed stays committed{told}", file=sys.stderr)
    return code if isinstance(code, int) else DONE


def _show_usage(error: BaseException) -> None:
    context = getattr(error, "ctx", None)
    # A word may be a URL in the wrong place.
    told = redacted(getattr(error, "format_message", lambda: str(error))())
    # Pydantic's words, which Typer passes on.
    told = re.sub(r"Value error, ", "", re.sub(r"\bInput should be\b", "must be", told))
    told = re.sub(r", unable to parse string as an? \w+$", "", told)
    if told.startswith("Usage: "):  # the whole help, for a group without a command
        print(told, file=sys.stderr)
        return
    if context is not None:
        print(printable(context.get_usage(), keep="\n"), file=sys.stderr)
        print(f"Try '{printable(context.command_path)} --help'.", file=sys.stderr)
    print(f"error: {printable(told)}", file=sys.stderr)


def _pipe_closed() -> int:
    """The reader had enough (`| head`): say nothing, not even at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
