"""Hadoop's clients for object stores, which Spark does not include: the package that a location
needs, by the Hadoop that PySpark was built with.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from deltasql.errors import ConfigError
from deltasql.settings.object_store import SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The SDK modules that Hadoop's client for S3 uses, by Hadoop's version: 17 MB instead of 640 MB for
# the bundle of all Amazon services.
_SDK: Final = {"3.5.0": ("2.35.4", "1.3.1")}
_MODULES: Final = ("s3", "s3-transfer-manager", "sts", "apache-client")
_BUNDLE: Final = "software.amazon.awssdk:bundle"
_GCS: Final = "com.google.cloud.bigdataoss:gcs-connector"
# Hadoop's names for the stores that we know, and the package with its client.
_CLIENTS: Final = {
    "s3": ("s3a", "org.apache.hadoop:hadoop-aws"),
    "azure": ("abfss", "org.apache.hadoop:hadoop-azure"),
    "gcs": ("gs", _GCS),
}


class Packages(NamedTuple):
    """What Spark's resolver is asked for: coordinates, what to exclude, and whether we know the
    digests of what comes.
    """

    wanted: tuple[str, ...]
    without: tuple[str, ...]
    is_known: bool


def hadoop_version() -> str:
    """The Hadoop that the installed PySpark was built with; empty if unknown."""
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    found = sorted(folder.glob("hadoop-client-api-*.jar"))
    return found[0].stem.removeprefix("hadoop-client-api-") if found else ""


def packages_for(location: str | None) -> Packages | None:
    """What a session needs for a location; None if Spark has it, or we can't provide it."""
    version = hadoop_version()
    if not location or _kind(location) != "s3" or not version:
        return None
    client = f"{_CLIENTS['s3'][1]}:{version}"
    if version not in _SDK:
        return Packages((client,), (), is_known=False)
    sdk, accelerator = _SDK[version]
    modules = tuple(f"software.amazon.awssdk:{module}:{sdk}" for module in _MODULES)
    extra = f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{accelerator}"
    return Packages((client, *modules, extra), (_BUNDLE,), is_known=True)


def check_filesystem(spark: SparkSession, location: str) -> None:
    """Raise `ConfigError`, with the package to add, if the session can't reach a location."""
    kind = _kind(location)
    if kind not in _CLIENTS:
        return
    scheme, artifact = _CLIENTS[kind]
    jvm = cast("Any", spark._jvm)
    from py4j.protocol import Py4JJavaError

    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, spark._jsc.hadoopConfiguration()
        )
    except Py4JJavaError as error:
        version = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        package = artifact if artifact == _GCS else f"{artifact}:{version}"
        raise ConfigError(
            f"this session can't reach {scheme}:// locations, and the lake is at one",
            cause=f"it lacks {artifact}: {_first_line(error)}",
            remedy=_remedy(kind, package),
        ) from None


def _remedy(kind: str, package: str) -> str:
    by_hand = f"start it with spark.jars.packages={package}"
    if kind != "s3":
        return by_hand
    return f"{by_hand}, or with deltasql.spark.session(location=…), which fetches it"


def _kind(location: str) -> str:
    return SCHEMES.get(urlsplit(location).scheme, "")


def _first_line(error: Any) -> str:
    return str(error.java_exception.getMessage() or error).splitlines()[0][:200]
