"""Every option is documented, and nothing documented is unknown."""

import re
from pathlib import Path

from deltasql.settings.object_store import _CLIENT, _OWN, _RETRY, is_option

TEXT = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
NAMED = set(re.findall(r"`((?:s3|azure|gcs|\*)\.[a-z0-9_]+)`", TEXT))


def test_every_option_is_documented():
    own = {f"{kind}.{name}" for kind, names in _OWN.items() for name in names}
    shared = {f"*.{name}" for name in _CLIENT | _RETRY}
    assert own | shared <= NAMED


def test_every_documented_option_exists():
    for name in NAMED:
        assert is_option(name.replace("*", "s3")), name
