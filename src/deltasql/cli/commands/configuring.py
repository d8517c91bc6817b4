"""A lake's beginning, and its settings: init, config show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.session import Session, command
from deltasql.errors import ConfigError, StoreError
from deltasql.settings.secrets import mask_address, without_secrets

if TYPE_CHECKING:
    from deltasql.objectstore import ObjectStore

app = typer.Typer(name="config", help="Show the settings in force.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the command."""
    command(
        root,
        "init",
        examples=[
            "deltasql init sqlite:///lake.db --location ./lake",
            "deltasql init postgresql://me@db/lake --location s3://bucket/lake",
        ],
    )(init)


def init(
    session: Session,
    database: Annotated[
        str | None,
        typer.Argument(
            help="URL of the database: sqlite:///…, duckdb:///… or postgresql://…",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        bool, typer.Option(help="Write deltasql.toml, so other commands need no options.")
    ] = True,
    probe: Annotated[
        bool,
        typer.Option(help="Write, list, read and delete an object in the location, as a test."),
    ] = True,
) -> None:
    """Create a lake, and a deltasql.toml that names it.

    Creates the log's tables in the database; with the file, other commands need no options. An
    existing lake is left as it is.
    """
    session.url = database or session.url
    with session.lake(creating=True) as lake:
        url, location = session.configuration().text("url") or "", lake.location
        if probe and location:
            _probe(lake.objects(location))
        written = _write_file(url, session.location and location) if file else None
        shown = location and mask_address(location)
        values = {"url": lake.url, "location": shown, "file": written}
    text = f"the lake is in {values['url']}"
    text += f", new tables go to {shown}" if shown else ", new tables have no location yet"
    session.out.done(text, values)
    if written and (without_secrets(url) != url or shown != location):
        session.out.note(
            f"secrets were left out of {written}: set PGPASSWORD, DELTASQL_URL or DELTASQL_LOCATION"
        )


def _probe(objects: ObjectStore) -> None:
    from deltasql.lake.looking.probing import probe

    try:
        probe(objects)
    except StoreError as error:
        hint = "the database is ready; run init again, or with --no-probe"
        raise replace(error, remedy=f"{error.remedy}; {hint}") from None


def _write_file(url: str, location: str | None) -> str | None:
    from deltasql.settings.sources import FILE_NAME, resolve

    path = Path(FILE_NAME)
    public = without_secrets(url)
    if path.exists():
        found = resolve(environment={}, file=path).text("url") or ""
        if found in (url, public):
            return None
        raise ConfigError(
            f"{FILE_NAME} names another lake",
            cause="the database is ready; the file was left as it is",
            remedy="pass --no-file, or move the file away",
        )
    lines = [f"url = {_quoted(public)}"] if public else []
    if location and mask_address(location) == location:
        lines.append(f"location = {_quoted(location)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return FILE_NAME


def _quoted(text: str) -> str:
    """A TOML string: like JSON's, but that DEL must be escaped."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@command(
    app,
    "show",
    examples=["deltasql config show", "deltasql config show --profile prod --output json"],
)
def show(session: Session) -> None:
    """Show every setting, and where it comes from.

    Secrets are masked.
    """
    found = session.configuration()
    rows = [(value.key, value.shown, value.source) for value in found.everything()]
    session.out.table(
        ("key", "value", "source"),
        rows,
        style=lambda row: "dim" if row[2] in ("default", "not set") else None,
    )
