"""Loads our classes into a running session, and puts a lake behind a catalog's name."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deltasql.errors import ConfigError
from deltasql.spark.catalog.bridge import Bridge
from deltasql.spark.sessions.failures import no_native_route

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from deltasql.lake.catalog import Lake
    from deltasql.spark.database import Database

JAR = Path(__file__).parent / "deltasql-spark.jar"
# Our classes extend ones that are not Delta's public API, so each release is tested.
TESTED_DELTA = ("4.3.0", "4.4.0")
_CATALOG = "io.deltasql.spark.LakeCatalog"
# The lake that is currently behind each catalog name.
_attached: dict[str, Bridge] = {}
# The context it was attached in: all sessions of a context share the lakes of their catalogs.
_contexts: dict[str, SparkContext] = {}
# Delta's kernel-based connector reads `_delta_log` itself and so bypasses the SQL log.
_KERNEL_CONNECTOR = "spark.databricks.delta.v2.enableMode"


def attach_catalog(database: Database, catalog: str) -> None:
    """Make the lake of a database the catalog of that name in its session."""
    check_name(catalog)
    spark = database.spark
    check_delta(database.gateway.delta_version)
    _load_classes(spark)
    _start_callbacks(spark)
    jvm = cast("Any", spark._jvm)
    spark.conf.set(_KERNEL_CONNECTOR, "NONE")
    spark.conf.set(f"spark.sql.catalog.{catalog}", _CATALOG)
    database.catalog = catalog
    before = _attached.get(catalog)
    context = spark.sparkContext
    if before is not None and before.lake is database.lake and _contexts[catalog] is context:
        # From another session, or once more: transactions that were begun go on.
        return
    if before is not None and before.lake is not database.lake:
        before.close()
    bridge = Bridge(database.lake, database.set_credentials, database.transaction)
    jvm.io.deltasql.spark.Attachment.attach(spark._jsparkSession, catalog, bridge)
    _attached[catalog] = bridge
    _contexts[catalog] = context
    database.lake.at_close(lambda: _leave(spark, catalog, bridge))


def catalog_of(lake: Lake) -> str | None:
    """The name of a lake in Spark SQL, whoever attached it."""
    return next((name for name, bridge in _attached.items() if bridge.lake is lake), None)


def _leave(spark: SparkSession, catalog: str, bridge: Bridge) -> None:
    """Detach a lake that is closing, since it would be asked about every path that Spark opens."""
    bridge.close()
    if _attached.get(catalog) is bridge:
        # The session may have ended before the lake.
        with suppress(Exception):
            detach_catalog(spark, catalog, bridge.lake)


def check_delta(version: str) -> None:
    """Raise `ConfigError` for a Delta that our classes were not tested with."""
    if version not in TESTED_DELTA:
        raise no_native_route(
            f"it has {f'Delta {version}' if version else 'no Delta'}; as a catalog a lake was "
            f"tested with {', '.join(TESTED_DELTA)}",
            "use one of these, or attach without catalog= and use db.read and db.write",
        )


def check_name(catalog: str) -> None:
    """Raise `ConfigError` for a word that can't name a lake's catalog."""
    if not catalog.isidentifier() or catalog == "spark_catalog":
        raise ConfigError(
            f"{catalog!r:.80} can't be the name of a lake's catalog",
            cause="it must be one word, and spark_catalog is Spark's own",
            remedy='choose another, such as catalog="lake"; spark.sql.defaultCatalog=lake makes '
            "names without it work",
        )


def jar() -> Path:
    """The jar with our classes; raises `ConfigError` if the package has none."""
    if not JAR.exists():
        raise ConfigError(
            "deltasql's jar for Spark is missing",
            cause=f"there is no {JAR.name} in the package",
            remedy="install a wheel; in a clone run make jar",
        )
    return JAR


def _load_classes(spark: SparkSession) -> None:
    """Load our jar into the driver; executors run none of it."""
    jvm = cast("Any", spark._jvm)
    found = jar()
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    while loader is not None and "MutableURLClassLoader" not in loader.getClass().getName():
        loader = loader.getParent()
    if loader is None:
        raise no_native_route(
            "its class loader accepts no jar while it runs",
            f"start it with spark.jars={found}",
        )
    loader.addURL(jvm.java.io.File(str(found)).toURI().toURL())


def _start_callbacks(spark: SparkSession) -> None:
    from pyspark import java_gateway

    start: Any = java_gateway.ensure_callback_server_started
    start(spark.sparkContext._gateway)


def detach_catalog(spark: SparkSession, catalog: str, lake: Lake) -> None:
    """Detach the lake; whatever is opened from now on is stock Delta's."""
    jvm = cast("Any", spark._jvm)
    bridge = _attached.get(catalog)
    if bridge is not None and bridge.lake is not lake:
        # Another lake has the name by now.
        return
    _attached.pop(catalog, None)
    _contexts.pop(catalog, None)
    if bridge is not None:
        bridge.close()
    jvm.io.deltasql.spark.Attachment.detach(catalog)
    spark.conf.unset(f"spark.sql.catalog.{catalog}")
