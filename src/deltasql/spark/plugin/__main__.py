"""`python -m deltasql.spark.plugin`: started by Spark's driver, and ended with it.

The driver writes one line to its standard input, with the secret and the lakes, and reads one line,
with the port or an error. The input stays open after that; its end means that the driver has ended.
With the word `conf` it prints the settings that a driver needs, for spark-defaults.conf.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any, BinaryIO

from deltasql.errors import DeltaSqlError
from deltasql.spark.plugin.lakes import Lakes
from deltasql.spark.plugin.serving import Server

# After the driver is gone, running work has this long to finish.
_GRACE = 10.0


def main() -> None:
    """Serve a driver, or print the settings that it needs."""
    if sys.argv[1:] == ["conf"]:
        _print_settings()
        return
    # Ctrl-C in a shell is meant for the running statement.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Anything printed from now on goes to the driver's log, not into the answer.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit("Spark's driver starts this: spark.plugins=io.deltasql.spark.LakePlugin")
        serve(json.loads(line), out)


def serve(hello: dict[str, Any], out: BinaryIO) -> None:
    """Answer until the driver ends."""
    try:
        lakes = Lakes.open(hello)
    except DeltaSqlError as error:
        _say(out, {"error": str(error)})
        return
    with Server(bytes.fromhex(hello["secret"]), lakes.answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _say(out, {"port": server.port})
        while sys.stdin.buffer.read(1 << 16):
            pass
        last = threading.Timer(_GRACE, os._exit, [1])
        last.daemon = True
        last.start()
        server.shutdown()
    lakes.close()


def _print_settings() -> None:
    from deltasql.spark.plugin.configuring import settings

    try:
        found = settings()
    except DeltaSqlError as error:
        sys.exit(str(error))
    sys.stdout.writelines(f"{key} {value}\n" for key, value in found.items())


def _say(out: BinaryIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
