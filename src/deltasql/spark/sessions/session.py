"""A Spark session ready for deltasql, and attaching to an existing one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltasql.lake.catalog import Lake, connect
from deltasql.secrecy import discreet
from deltasql.settings.sources import resolve
from deltasql.spark.catalog.attaching import attach_catalog
from deltasql.spark.database import Database
from deltasql.spark.sessions import jars as delta_jars
from deltasql.spark.sessions import profiles
from deltasql.spark.sessions.environment import (
    EXTENSION,
    check_java,
    check_native,
    spark_release,
)
from deltasql.spark.sessions.failures import no_native_route
from deltasql.spark.sessions.filesystems import check_filesystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "spark.sql.catalog.spark_catalog"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@discreet
def session(
    app_name: str = "deltasql",
    *,
    master: str | None = None,
    jars: str | Path | None = None,
    config: Mapping[str, str] | None = None,
    location: str | None = None,
) -> SparkSession:
    """A session with Delta; its jars are fetched the first time, which shows progress.

    For a `location` on S3, by default the one that DELTASQL_LOCATION or deltasql.toml names, it
    includes Hadoop's client, in the version that fits this Spark. `jars` names a folder that
    already contains all jars, as DELTASQL_SPARK_JARS does. `config` overrides every setting;
    `master` is Spark's, by default all cores of this machine. Delta's catalog is not set: with a
    catalog other than its own, Spark can't load tables created by CREATE TABLE … USING deltasql.
    """
    spark_release()
    check_java()
    from pyspark.sql import SparkSession

    place = location or resolve().text("location")
    found = [*delta_jars.find(jars), *delta_jars.find_client(place, jars)]
    paths = ",".join(map(str, found))
    given = dict(config or {})
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    settings = {
        "spark.jars": ",".join(filter(None, [given.pop("spark.jars", ""), paths])),
        "spark.sql.extensions": _joined(given.pop("spark.sql.extensions", ""), EXTENSION),
        # Lets stock Delta read mirrors by path without its catalog.
        "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
        **given,
    }
    if (master or given.get("spark.master") or "local").startswith("local"):
        # Workers on this machine should have the same packages as this program.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings.setdefault("spark.pyspark.python", os.environ["PYSPARK_PYTHON"])
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@discreet
def attach(
    spark: SparkSession,
    lake: Lake | str | None = None,
    *,
    name: str = "",
    catalog: str | None = None,
) -> Database:
    """The lake's tables in a session; `lake` is an open one, or a URL.

    Without it, DELTASQL_URL and DELTASQL_LOCATION name the lake. With `catalog="lake"`, its tables
    are `lake.sales.orders` everywhere in Spark SQL. `format("deltasql")` finds it, too: with
    several lakes, each has a `name`, for `option("lake", name)`.
    """
    if not hasattr(spark, "_jvm"):
        raise no_native_route(
            "it is a Spark Connect session, whose JVM is elsewhere",
            'call deltasql.spark.register(spark) and use format("deltasql"); '
            "the server's profiles name the lakes",
        )
    opened = lake if isinstance(lake, Lake) else connect(lake)
    profile = name or profiles.DEFAULT
    database = Database(spark, opened, profile)
    check_native(spark, database.gateway)
    if opened.location:
        check_filesystem(spark, opened.location)
    register(spark, profiles.keep(opened, profile))
    if catalog is not None:
        attach_catalog(database, catalog)
    return database


def register(spark: SparkSession, kept: Path | None = None) -> None:
    """Make `format("deltasql")` known to a session, including a Spark Connect one."""
    from deltasql.spark.datasource.source import BUILTIN_CATALOG, registered

    kept = kept or profiles.kept_file()
    catalog = str(spark.conf.get(CATALOG, BUILTIN_CATALOG))
    with _active(spark):
        spark.dataSource.register(registered(None if kept is None else str(kept), catalog))
    spark.conf.set(PUSHDOWN, "true")


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Spark refuses a name that the thread's active session knows, whichever is to learn it."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        # Spark Connect: the server's own.
        yield
        return
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _joined(given: str, ours: str) -> str:
    names = [name for name in given.split(",") if name]
    return ",".join([*names, ours] if ours not in names else names)
