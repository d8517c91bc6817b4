"""versitygw: a second S3 server, objects as files; used where its program was built."""

from __future__ import annotations

from tests.parts.locked import go_build
from tests.parts.process import TOOLS, LoopbackProcess, PartMissingError

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
    if not PROGRAM.exists():
        go_build("versitygw", "github.com/versity/versitygw/cmd/versitygw", PROGRAM)


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
