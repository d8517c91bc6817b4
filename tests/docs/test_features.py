"""What docs/features.md says of each feature is what the code does with it."""

import re
from pathlib import Path

from deltasql.spec.features import FEATURES


def test_every_feature_is_documented_as_it_is():
    text = (Path(__file__).parents[2] / "docs" / "features.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", text, re.MULTILINE))
    assert rows.keys() == FEATURES.keys()
    for name, row in rows.items():
        feature = FEATURES[name]
        who, read, commit, append, note = row.split(" | ")
        assert who == ("readers and writers" if feature.reader else "writers")
        assert read == ("yes" if feature.read else "refused"), name
        assert commit == ("yes" if feature.commit else "refused"), name
        words = {"yes": "yes", "unused": "while unused", "no": "refused"}
        assert append == words[feature.append], name
        assert note == feature.note
