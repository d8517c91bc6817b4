"""The SHA-256 of the jars that deltasql was tested with, which downloads must match."""

# ruff: noqa: E501 - a digest is as long as it is

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path
from typing import Final

from deltasql.errors import ConfigError

DIGESTS: Final = {
    "delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "unitycatalog-client-0.6.0.jar": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    "unitycatalog-hadoop-0.6.0.jar": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
    "delta-kernel-api-4.3.0.jar": "289c01d913528509f452ff901851c91b668f84dafa01fb0971bc252b64370842",
    "delta-kernel-defaults-4.3.0.jar": "0d60c6ca6560971112acc0f3e8256d8feb4a52714ba7fa4d2a7eb51f1fab0323",
    "delta-kernel-unitycatalog-4.3.0.jar": "aa6ba769ad18e718fd05a3d2beb64744a72d906a57826439dbda136f57f1f082",
    "delta-spark_4.1_2.13-4.3.0.jar": "35ae4164ee41bbfc8bdb52dcd3715ff4e1821a18c085e7a71a462e8e80e23ee5",
    "delta-storage-4.3.0.jar": "d765a7144289c292e256963f810c1a4b096a8c09bdb3b0370096393b6a02b3c5",
    "unitycatalog-client-0.5.0.jar": "9de6812122b411e74ee06c831dac5ccd5f87d69002c29170a37a8bce5e503615",
    "unitycatalog-hadoop-0.5.0.jar": "baca7b2928afe2a1b1789b423ab817d5d4165218999a10ebeab4a8712683beb5",
}


def check(jar: Path) -> None:
    """Raise `ConfigError` for a jar that is unknown or differs from the tested one."""
    # Ivy prefixes the name with the group.
    expected = next((digest for name, digest in DIGESTS.items() if jar.name.endswith(name)), None)
    with jar.open("rb") as content:
        found = file_digest(content, "sha256").hexdigest()
    if found != expected:
        known = "no jar of that name is known" if expected is None else f"it should be {expected}"
        raise ConfigError(
            f"the jar {jar.name} is not the one that deltasql was tested with",
            cause=f"its SHA-256 is {found}; {known}",
            remedy="ask whoever runs the Maven repository; to use the jar anyway, put the jars "
            "into a folder and set DELTASQL_SPARK_JARS to it",
        )
