"""Delta's jars fetched by Spark's own resolver: once, and never by half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltasql.errors import ConfigError
from deltasql.spark.sessions import environment, jars
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.sizes import FULL
from tests.spark.conftest import SOURCE

# A Maven repository in a folder is to Ivy what one on a server is, and needs no network.
SETTINGS = """<ivysettings>
<settings defaultResolver="folder"/>
<caches ivyPattern="[organisation]/[module]/ivy-[revision].xml" useOrigin="false"/>
<resolvers><ibiblio name="folder" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = """<dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
"""
# Delta depends on what Spark has as well: nobody is to ask for it.
STRANGER = ("org.apache.hadoop", "hadoop-client-api", "3.4.2")


def coordinates(jar: Path) -> tuple[str, str, str]:
    artifact, _, version = jar.stem.rpartition("-")
    group = "io.unitycatalog" if artifact.startswith("unitycatalog") else "io.delta"
    return group, artifact, version


def publish(root: Path) -> None:
    """The jars of `make parts` as a repository: one package that depends on the others."""
    found = {coordinates(jar): jar for jar in spark_part.JARS.glob("*.jar")}
    main = spark_part.ARTIFACT
    for item, jar in found.items():
        group, artifact, version = item
        folder = root / group.replace(".", "/") / artifact / version
        folder.mkdir(parents=True)
        (folder / jar.name).symlink_to(jar)
        needs = [*(other for other in found if other != main), STRANGER] if item == main else []
        named = "".join(DEPENDENCY.format(*other) for other in needs)
        (folder / f"{jar.stem}.pom").write_text(POM.format(*item, named))


def publish_client(root: Path) -> None:
    """Hadoop's client for S3 in the repository: what is asked for, and what the SDK depends on."""
    asked = {artifact: item for item in spark_part.S3A_ARTIFACTS for artifact in (item[1],)}
    found: list[tuple[str, str, str]] = []
    for jar in spark_part.S3A_JARS.glob("*.jar"):
        artifact, _, version = jar.stem.rpartition("-")
        item = asked.get(artifact, ("software.amazon.awssdk", artifact, version))
        found.append(item)
        folder = root / item[0].replace(".", "/") / artifact / item[2]
        folder.mkdir(parents=True)
        (folder / jar.name).symlink_to(jar)
    for item in found:
        # The client itself names the bundle of all services, which is not here: it is excluded.
        needs = [other for other in found if other[1] not in asked] if item[1] == "s3" else []
        if item[1] == "hadoop-aws":
            needs = [("software.amazon.awssdk", "bundle", "2.35.4")]
        named = "".join(DEPENDENCY.format(*other) for other in needs)
        folder = root / item[0].replace(".", "/") / item[1] / item[2]
        (folder / f"{item[1]}-{item[2]}.pom").write_text(POM.format(*item, named))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an empty cache, whose Spark is told of a repository."""
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "ivysettings.xml").write_text(SETTINGS.format(root=root.as_uri()))
    (tmp_path / "conf").mkdir()
    defaults = f"spark.jars.ivySettings {tmp_path / 'ivysettings.xml'}\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(jars.VARIABLE, raising=False)
    return tmp_path


PROGRAM = """
from deltasql.spark.sessions import jars

jars.find()
"""
# The session of tests/readers/test_first_hour.py begins like this one.
SESSION = """
import sys
from pathlib import Path
import deltasql, deltasql.spark
from tests.spark.conftest import quick
work = Path(sys.argv[1])
spark = deltasql.spark.session("jars", master="local[1]", config=quick(work))
with deltasql.connect(f"sqlite:///{work}/lake.db", location=(work / "data").as_uri()) as lake:
    db = deltasql.spark.attach(spark, lake)
    db.write(spark.range(3), "t")
    print("ROWS", db.read("t").count())
"""


@pytest.mark.parametrize(
    "program", [PROGRAM, SESSION][: 1 + FULL], ids=["alone", "session"][: 1 + FULL]
)
def test_jars_are_fetched_once(machine, capfd, program):
    publish(machine / "repository")
    done = subprocess.run(
        [sys.executable, "-c", program, str(machine)],
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert program is PROGRAM or "ROWS 3" in done.stdout
    package = environment.delta_package()
    assert f"deltasql: fetching {package}, once …" in done.stderr
    assert f"deltasql: fetched {package} in " in done.stderr
    # Found where the other process left them, without another look at the repository.
    found = [jar.name.partition("_")[2] for jar in jars.find()]
    assert sorted(found) == sorted(jar.name for jar in spark_part.JARS.glob("*.jar"))
    assert "fetching" not in capfd.readouterr().err
    assert [path.name for path in (machine / "cache" / "deltasql" / "jars").iterdir()] == [
        package.replace(":", "_")
    ]


def test_jars_that_nobody_has(machine, capfd):
    with pytest.raises(ConfigError, match="could not be fetched") as caught:
        jars.find()
    assert "not found" in caught.value.cause or "unresolved" in caught.value.cause
    assert "Maven repository" in caught.value.remedy
    assert jars.VARIABLE in caught.value.remedy
    assert "fetching" in capfd.readouterr().err
    assert not list((machine / "cache" / "deltasql" / "jars").iterdir())


def test_a_resolver_that_does_not_answer(machine, monkeypatch):
    monkeypatch.setattr(jars, "_PATIENCE", 0)
    with pytest.raises(ConfigError, match="could not be fetched") as caught:
        jars.find()
    assert "longer than 0 s" in caught.value.cause


def test_a_client_for_s3_that_was_changed_is_refused(machine):
    repository = machine / "repository"
    publish_client(repository)
    (jar,) = repository.rglob("hadoop-aws-*.jar")
    content = jar.read_bytes()
    jar.unlink()
    jar.write_bytes(content + b"\0")
    with pytest.raises(ConfigError, match=r"hadoop-aws-.*is not the one"):
        jars.find_client("s3://bucket/lake")
    assert not list((machine / "cache" / "deltasql" / "jars").glob("org.apache*"))
    jar.write_bytes(content)
    found = [path.name for path in jars.find_client("s3://bucket/lake")]
    assert jar.name in found
    assert "s3-2.35.4.jar" in found
