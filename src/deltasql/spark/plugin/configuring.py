"""The settings for a driver that starts the process: `python -m deltasql.spark.plugin conf`."""

from __future__ import annotations

import sys

from deltasql.spark.catalog.attaching import jar
from deltasql.spark.sessions import jars

PLUGIN = "io.deltasql.spark.LakePlugin"


def settings() -> dict[str, str]:
    """As in spark-defaults.conf: Delta's jars and ours, the plugin, and this Python."""
    return {
        "spark.jars": ",".join(str(item.absolute()) for item in (*jars.find(), jar())),
        "spark.plugins": PLUGIN,
        "spark.deltasql.python": sys.executable,
    }
