"""Azurite: Microsoft's own emulator of Azure Blob Storage."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import time
import urllib.error
import urllib.request
from email.utils import formatdate
from typing import Self

from tests.parts.locked import npm_install
from tests.parts.process import TOOLS, LoopbackProcess, PartMissingError, apt_install

FOLDER = TOOLS.parent / "azurite"
PROGRAM = FOLDER / "node_modules" / ".bin" / "azurite-blob"
CONTAINER = "lake"
# Published by Microsoft, the same in every emulator: no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def find() -> str:
    """The program."""
    if not PROGRAM.exists() or shutil.which("node") is None:
        raise PartMissingError("Azurite is not installed; run: make parts")
    return str(PROGRAM)


def ensure() -> None:
    """Install Azurite unless it is there."""
    if shutil.which("npm") is None:
        apt_install("npm")
    if not PROGRAM.exists():
        npm_install("azurite", FOLDER)


class Azurite(LoopbackProcess):
    """A blob service with one container."""

    name = "azurite"

    def options(self, port: int | None = None) -> dict[str, str]:
        """The options of `open_store`, through `port` where a proxy stands in between."""
        return {
            "azure.endpoint": f"http://127.0.0.1:{port or self.port}/{ACCOUNT}",
            "azure.account_name": ACCOUNT,
            "azure.account_key": KEY,
            "azure.allow_http": "true",
        }

    def location(self, prefix: str) -> str:
        return f"az://{CONTAINER}/{prefix}"

    def command(self) -> list[str]:
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        return [find(), *quiet, *where, "--location", str(self.directory)]

    def start(self) -> Self:
        super().start()
        self._create_container()
        return self

    def _wait_until_listening(self, timeout: float = 60) -> None:
        super()._wait_until_listening(timeout)  # node takes its time on a busy machine

    def _create_container(self) -> None:
        """By hand, because obstore makes no containers."""
        path = f"/{ACCOUNT}/{CONTAINER}"
        headers = {"x-ms-date": formatdate(time.time(), usegmt=True), "x-ms-version": "2021-08-06"}
        signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        text = "PUT" + "\n" * 12 + f"{signed}/{ACCOUNT}{path}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"http://127.0.0.1:{self.port}{path}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)
        # A proxy in the environment must not stand between us and loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            opener.open(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there since before the restart
                raise RuntimeError(f"azurite: no container: {error.read().decode()}") from error
