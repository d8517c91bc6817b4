"""What is wrong here, and what to do about it: doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from deltasql.cli.failures import FAILED, spoken
from deltasql.cli.session import Session, command

if TYPE_CHECKING:
    from deltasql.lake.looking.examining import Finding


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor", examples=["deltasql doctor", "deltasql doctor --output json"])(doctor)


def doctor(session: Session) -> None:
    """Check everything that a lake needs.

    This covers versions, Java and jars, the database, its grants and its clock, the object
    store, the worker, the mirror's lag, and the files of each mirror, of which the newest are
    read. Each problem comes with a remedy. The exit code is 1 if there is one.
    """
    from deltasql.lake.looking.examining import examine
    from deltasql.telemetry import logs

    configuration = session.configuration()
    logs.configure(form=configuration.settings.log_format, level="error")
    found = list(examine(configuration, _spark))
    session.out.findings(
        [(item.check, item.state, item.finding, spoken(item.remedy)) for item in found],
        {"problem": "red", "note": "yellow"},
    )
    if any(item.state == "problem" for item in found):
        raise typer.Exit(FAILED)


def _spark() -> Iterator[Finding]:
    """What PySpark takes, where it is installed."""
    from importlib.util import find_spec

    from deltasql.errors import ConfigError
    from deltasql.lake.looking.examining import Finding

    if find_spec("pyspark") is None:
        yield Finding("spark", "note", "PySpark is not installed", "pip install 'deltasql[spark]'")
        return
    from deltasql.spark.sessions import jars
    from deltasql.spark.sessions.environment import check_java, delta_package
    from deltasql.spark.sessions.filesystems import hadoop_version

    try:
        yield Finding("java", "ok", f"Java {check_java()} can run Spark")
    except ConfigError as error:
        yield Finding("java", "problem", f"{error.problem}: {error.cause}", error.remedy)
    try:
        package, where = delta_package(), jars.known()
    except ConfigError as error:
        yield Finding("jars", "problem", f"{error.problem}: {error.cause}", error.remedy)
        return
    if where is None:
        yield Finding(
            "jars",
            "note",
            f"{package} is not fetched yet",
            "deltasql.spark.session() fetches it, once",
        )
    else:
        told = f"{package} in {where}, Hadoop {hadoop_version() or 'unknown'}"
        yield Finding("jars", "ok", told)
