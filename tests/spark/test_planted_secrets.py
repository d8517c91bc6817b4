"""Secrets are planted, a PySpark job runs and is ended: they are found nowhere."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.parts import spark as spark_part
from tests.sizes import FULL

ROOT = Path(__file__).parents[2]
SHARED = Path("/dev/shm")
RELATIONS = """
SELECT c.oid::regclass::text FROM pg_class AS c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
"""
# An orderly end leaves less behind than a sudden one.
ENDS = ["KILL", "TERM", "done"] if FULL else ["KILL"]


class Planted:
    """Secrets, and where they may have got to."""

    def __init__(self) -> None:
        self.password, self.key, self.session = (f"plant{uuid.uuid4().hex}" for _ in range(3))
        self.shared_before = set(SHARED.iterdir())

    def settings(self) -> dict[str, str]:
        return {
            "s3.access_key_id": "AKIAEXAMPLE",
            "s3.secret_access_key": self.key,
            "s3.session_token": self.session,
        }

    def forms(self) -> list[bytes]:
        """As they are, and as basic authentication would send the password."""
        plain = [item.encode() for item in (self.password, self.key, self.session)]
        # Without the ends, which depend on what stands beside them.
        return [*plain, *(base64.b64encode(item)[4:-4] for item in plain)]

    def in_files(self, *folders: Path) -> list[str]:
        found = []
        for path in (path for folder in folders for path in (folder, *folder.rglob("*"))):
            with suppress(OSError):  # others' files come and go
                if path.is_file() and any(form in path.read_bytes() for form in self.forms()):
                    found.append(str(path))
        return found

    def in_memory(self) -> list[str]:
        """What has come to shared memory since; the machine's other users have theirs there."""
        return self.in_files(*(set(SHARED.iterdir()) - self.shared_before))

    def in_processes(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = process.read_bytes()
            except OSError:
                continue  # it is gone
            if any(form in line for form in self.forms()):
                found.append(str(process))
        return found

    def in_database(self, url: str) -> list[str]:
        wanted = "|".join((self.password, self.key, self.session))
        with psycopg.connect(url, autocommit=True) as connection:
            names = [name for (name,) in connection.execute(RELATIONS)]
            statement = "SELECT count(*) FROM {} AS t WHERE t::text ~ %s"
            counted = {
                name: connection.execute(
                    sql.SQL(statement).format(sql.Identifier(name)), [wanted]
                ).fetchone()
                for name in (*names, "pg_stat_activity")
            }
        # This very statement is one of those that run.
        return [name for name, (count,) in counted.items() if count > (name == "pg_stat_activity")]


@pytest.fixture
def planted() -> Planted:
    return Planted()


@pytest.fixture
def job(planted: Planted, postgres_url: str, tmp_path: Path) -> dict[str, object]:
    spark_part.find()
    (tmp_path / "tmp").mkdir()
    # The server trusts everybody; the password is there to be looked for.
    url = postgres_url.replace("@", f":{planted.password}@", 1)
    assert planted.password in url
    return {
        "url": url,
        "location": (tmp_path / "lake").as_uri(),
        "settings": planted.settings(),
        "jars": str(spark_part.JARS),
        "work": str(tmp_path),
    }


def _environment(work: Path) -> dict[str, str]:
    given = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL", "SPARK", "AWS"))}
    return {
        **given,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "HOME": str(work),
        "TMPDIR": str(work / "tmp"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.mark.postgres
@pytest.mark.parametrize("end", ENDS)
def test_a_job_and_its_end_leave_no_secret(job, planted, postgres_url, tmp_path, end) -> None:
    with (tmp_path / "out.log").open("w") as out:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.secretive_job"],
            env=_environment(tmp_path),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        driver.stdin.write(json.dumps(job).encode() + b"\n")
        driver.stdin.flush()
        deadline = time.monotonic() + 240
        while "READY" not in (log := (tmp_path / "out.log").read_text()):
            assert driver.poll() is None, log[-4000:]
            assert time.monotonic() < deadline, log[-4000:]
            time.sleep(0.1)
        assert planted.in_processes() == []
        assert planted.in_files(tmp_path) + planted.in_memory() == [], "while it runs"
        assert planted.in_database(postgres_url) == []
        if end == "done":
            driver.stdin.write(b"\n")
            driver.stdin.close()
        else:
            driver.send_signal(getattr(signal, f"SIG{end}"))
        driver.wait(120)
    finally:
        # The JVM and Spark's Python workers are of the driver's own session.
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    log = (tmp_path / "out.log").read_text()
    assert log.count("Error: ") >= 8, "each connection that failed has said so"
    assert log.count("Failed: ") == 7, "so has each job"
    assert list((tmp_path / "events").rglob("*")), "Spark has written its events"
    assert planted.in_files(tmp_path) + planted.in_memory() == []
    assert planted.in_database(postgres_url) == []


@pytest.mark.postgres
def test_the_command_line_leaves_no_secret(job, planted, postgres_url, tmp_path) -> None:
    """Secrets from the environment and from the user's own file: in no other."""
    environment = {**_environment(tmp_path), "DELTASQL_URL": str(job["url"])}
    settings = [f"{key}={value}" for key, value in planted.settings().items()]
    environment |= {
        f"DELTASQL_{item.split('=')[0].replace('.', '_').upper()}": item.split("=")[1]
        for item in settings
    }
    own = tmp_path / "own"
    own.mkdir()
    lines = [f'url = "{job["url"]}"', "[s3]", f'secret_access_key = "{planted.key}"']
    (own / "deltasql.toml").write_text("\n".join(lines) + "\n")
    shown = ""
    for folder, words in (
        (tmp_path, ["init", str(job["url"]), "--location", str(job["location"])]),
        (tmp_path, ["config", "show"]),
        (tmp_path, ["show", "absent"]),
        (own, ["config", "show", "--output", "json"]),
        (own, ["tables", "--url", str(job["url"]).replace("127.0.0.1", "host.invalid")]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "deltasql.cli", *words],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        shown += done.stdout + done.stderr
    assert "s3.secret_access_key" in shown
    (tmp_path / "shown").write_text(shown)
    assert planted.in_files(tmp_path) == [str(own / "deltasql.toml")]
    assert planted.in_database(postgres_url) == []
