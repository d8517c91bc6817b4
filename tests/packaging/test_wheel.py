"""The wheel, installed into an environment that has nothing but what it asks for."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import deltasql

ROOT = Path(__file__).parents[2]
OURS = "import deltasql; lake = deltasql.connect('sqlite:///lake.db', location='lake')"
EXTRAS = (
    "adbc_driver_postgresql",
    "deltalake",
    "duckdb",
    "fastapi",
    "polars",
    "psycopg",
    "pyspark",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` of a new environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("clean")
    uv = str(ROOT / ".ci" / "uv")
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    install += ["--constraint", str(ROOT / "requirements.lock"), "--no-verify-hashes", str(wheel)]
    # What `make` has fetched is enough; a registry is asked only where that is gone.
    if subprocess.run([*install, "--offline"], check=False, capture_output=True).returncode:
        _run(install)
    return folder / "bin"


def _run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _clean() -> dict[str, str]:
    return {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}


def test_wheel_holds_the_package_and_no_more(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "deltasql/py.typed" in names
    assert "deltasql/store/sql/sqlite/schema.sql" in names
    assert "deltasql/store/sql/postgres/grants.sql" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"deltasql", f"deltasql-{deltasql.__version__}.dist-info"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in _package_files()}
    assert sources <= set(names)


def test_wheel_carries_the_jar_of_the_spark_catalog(wheel):
    jar = zipfile.ZipFile(wheel).read("deltasql/spark/catalog/deltasql-spark.jar")
    classes = zipfile.ZipFile(io.BytesIO(jar)).namelist()
    assert "io/deltasql/spark/LakeCatalog.class" in classes
    sources = {path.stem for path in (ROOT / "java").rglob("*.java")}
    assert sources == {Path(name).stem for name in classes if "$" not in name}


def _package_files() -> list[Path]:
    return [
        path
        for path in (ROOT / "src" / "deltasql").rglob("*")
        if path.suffix in {".py", ".sql", ".typed"}
    ]


def test_version_is_said_once(installed):
    code = (
        "import deltasql, importlib.metadata as metadata;"
        "print(deltasql.__version__, metadata.version('deltasql'))"
    )
    told = _run([str(installed / "python"), "-c", code], env=_clean()).split()
    assert told == [deltasql.__version__] * 2
    assert _run([str(installed / "deltasql"), "--version"]) == f"deltasql {deltasql.__version__}\n"


def test_the_core_works_on_sqlite(installed, tmp_path):
    code = f"""
{OURS}
import pyarrow as pa
t = lake.create_table("t", pa.schema([("id", pa.int64())]))
t.append(pa.table({{"id": [1, 2]}}))
for _ in range(10):
    t.append(pa.table({{"id": [3]}}))
lake.mirror.run(once=True)
assert t.mirror.validate().ok
print(t.scan(where="id < 3").to_arrow().num_rows)
"""
    python = str(installed / "python")
    assert _run([python, "-c", code], cwd=tmp_path, env=_clean()) == "2\n"
    program = str(installed / "deltasql")
    assert "one transaction" in _run([program, "demo"], cwd=tmp_path, env=_clean())
    url = ("--url", "sqlite:///lake.db")
    assert "t\t11\t" in _run([program, "tables", *url], cwd=tmp_path, env=_clean())


def test_nothing_else_is_there(installed, tmp_path):
    code = f"import importlib.util as u; print([n for n in {EXTRAS} if u.find_spec(n)])"
    assert _run([str(installed / "python"), "-c", code], env=_clean()) == "[]\n"
    done = subprocess.run(
        [str(installed / "deltasql"), "tables", "--url", "postgresql://x@127.0.0.1:1/y"],
        capture_output=True,
        text=True,
        check=False,
        env=_clean(),
    )
    assert done.returncode == 1
    assert "pip install 'deltasql[postgres]'" in done.stderr


def test_help_is_quick(installed):
    """No driver, no Arrow: the list of modules says it better than a clock on a busy machine."""
    code = (
        "import sys; from deltasql.cli.main import run; run(['--help']);"
        "heavy = ('pyarrow', 'obstore', 'rich', 'prometheus_client');"
        "print([name for name in heavy if name in sys.modules])"
    )
    told = _run([str(installed / "python"), "-c", code], env=_clean())
    assert told.splitlines()[-1] == "[]"
