"""versitygw: a second S3 server, objects as files; used where its program was built."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.parts.process import TOOLS, LoopbackProcess, PartMissingError, apt_install

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
PROGRAM = TOOLS / "versitygw"
BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "deltasql", "deltasql-secret"


def find() -> str:
    """The program."""
    if not PROGRAM.exists():
        raise PartMissingError("versitygw is not installed; run: make parts")
    return str(PROGRAM)


def ensure() -> None:
    """Build versitygw unless it is there."""
    if PROGRAM.exists():
        return
    if shutil.which("go") is None:
        apt_install("golang-go")
    TOOLS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "install", MODULE],
        env={**os.environ, "GOBIN": str(TOOLS)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PartMissingError(f"go install {MODULE} failed: {done.stderr.strip()[-500:]}")


class VersityGateway(LoopbackProcess):
    """An S3 server whose one bucket is a directory."""

    name = "versitygw"

    def options(self, port: int | None = None) -> dict[str, str]:
        """The options of `open_store`, through `port` where a proxy stands in between."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{port or self.port}",
            "s3.region": "us-east-1",
            "s3.access_key_id": ACCESS_KEY,
            "s3.secret_access_key": SECRET_KEY,
            "s3.allow_http": "true",
        }

    def location(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def command(self) -> list[str]:
        data = self.directory / "data"
        (data / BUCKET).mkdir(parents=True, exist_ok=True)
        keys = [f"ROOT_ACCESS_KEY={ACCESS_KEY}", f"ROOT_SECRET_KEY={SECRET_KEY}"]
        address = ["--quiet", "--port", f"127.0.0.1:{self.port}"]
        return ["/usr/bin/env", *keys, find(), *address, "posix", str(data)]
