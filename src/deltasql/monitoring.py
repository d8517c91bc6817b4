"""The metrics of this process, for Prometheus to fetch."""

from __future__ import annotations

from prometheus_client import start_http_server

from deltasql import metrics
from deltasql.errors import ConfigError


def serve(port: int) -> str:
    """Serve the metrics on loopback from a thread; returns the address. Port 0 takes any."""
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=metrics.REGISTRY)
    except OSError as error:
        raise ConfigError(
            f"the metrics can't be served at port {port}",
            cause=error.strerror or str(error),
            remedy="choose another port; 0 takes any that is free",
        ) from None
    return f"http://127.0.0.1:{server.server_port}/metrics"
