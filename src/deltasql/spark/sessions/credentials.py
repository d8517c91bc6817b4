"""The lake's credentials for Hadoop's file systems, so that Spark can read where we do.

They go into the running context's Hadoop configuration, by bucket. That reaches the executors with
each job, but appears in no option, no plan, and no event log: those list the configuration that the
context was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from deltasql.secrecy import discreet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3 = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "endpoint": "endpoint",
    "region": "endpoint.region",
}


@discreet
def set_credentials(spark: SparkSession, location: str, storage: Mapping[str, Any]) -> None:
    """Let Spark read and write at a location of the lake."""
    parts = urlsplit(location)
    if parts.scheme not in ("s3", "s3a"):
        return
    wanted = s3a_settings(parts.netloc, storage)
    conf = spark._jsc.hadoopConfiguration()
    for key, value in wanted.items():
        conf.set(key, value)


def s3a_settings(bucket: str, storage: Mapping[str, Any]) -> dict[str, str]:
    """The `s3a` settings for one bucket, from the lake's storage options."""
    given = {
        key.partition(".")[2]: str(value) for key, value in storage.items() if key[:3] == "s3."
    }
    start = f"fs.s3a.bucket.{bucket}."
    wanted = {start + ours: given[theirs] for theirs, ours in _S3.items() if theirs in given}
    if "session_token" in given:
        wanted[start + "aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    elif "access_key_id" in given:
        wanted[start + "aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        )
    if "endpoint" in given:
        # Only Amazon puts bucket names into the host name; other servers want them in the path.
        hosted = given.get("virtual_hosted_style_request", "false").lower() == "true"
        wanted[start + "path.style.access"] = "false" if hosted else "true"
        plain = given["endpoint"].startswith("http://")
        wanted[start + "connection.ssl.enabled"] = "false" if plain else "true"
    return wanted
