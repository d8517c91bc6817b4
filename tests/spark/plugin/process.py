"""The process beside a driver, which dies if the file `die` in its folder says so: a verb and when.

`after`: it has happened, and the answer is lost. `before`: the question is lost.
"""

import os
import sys
from pathlib import Path

from deltasql.spark.catalog.bridge import Bridge
from deltasql.spark.plugin.__main__ import main

work = Path(sys.argv[1])
order = work / "die"
answer = Bridge.apply


def deadly(self: Bridge, text: str) -> str:
    verb, _, when = order.read_text().partition(" ") if order.exists() else ("", "", "")
    if not verb or f'"verb":"{verb}"' not in text:
        return answer(self, text)
    order.unlink()
    if when == "after":
        answer(self, text)
    os._exit(9)


Bridge.apply = deadly
del sys.argv[1:]
main()
