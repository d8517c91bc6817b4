"""The image, as far as it can be looked at without a daemon: its installation, line by line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.sizes import FULL

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PIP = re.findall(r"pip [^&\n]*", DOCKERFILE.replace("\\\n", " "))


def test_nothing_is_installed_that_the_lock_does_not_name():
    download, install = PIP
    assert "--require-hashes -r /build/requirements.lock" in download
    assert "--no-index --find-links /packages" in install
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${BASE}"}
    assert re.search(r"^ARG BASE=python:3\.13-slim@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)


if FULL:

    def test_its_lines_install_the_program(tmp_path):
        """Those of pip, in an empty environment of this Python; all packages are fetched anew."""
        build = tmp_path / "build"
        shutil.copytree(ROOT / "src", build / "src")
        for name in re.findall(r"^COPY (.*) /build/$", DOCKERFILE, re.MULTILINE):
            for file in name.split():
                shutil.copy(ROOT / file, build)
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
        for line in PIP:
            here = line.replace("/build", str(build))
            here = here.replace("/packages", str(tmp_path / "packages"))
            subprocess.run([f"{tmp_path}/env/bin/{here}"], shell=True, check=True, timeout=600)
        subprocess.run([f"{tmp_path}/env/bin/deltasql", "--version"], check=True)
