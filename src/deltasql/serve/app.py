"""The application, assembled from its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.staticfiles import StaticFiles

from deltasql.serve import problems
from deltasql.serve.access import LakeReader, Served
from deltasql.serve.api import commits, jobs, lake, tables
from deltasql.serve.api.describing import described
from deltasql.serve.limits import Limits
from deltasql.serve.pages import audit, login, overview, table, working
from deltasql.serve.service import Service
from deltasql.serve.unity import catalog
from deltasql.serve.watching import LakeFigures
from deltasql.telemetry import metrics
from deltasql.version import __version__

API: Final[tuple[APIRouter, ...]] = tuple(
    module.router for module in (tables, commits, jobs, lake, catalog)
)
PAGES: Final[tuple[APIRouter, ...]] = tuple(
    module.router for module in (login, overview, table, working, audit)
)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the service can do its work, and what was asked to know it."""

    ready: bool
    checks: dict[str, bool]


def create_app(service: Service) -> FastAPI:
    """The application for a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # More threads than connections would wait for one another, and keep the loop from its turn.
        threads = max(4, service.lake.settings.sql_pool_size)
        to_thread.current_default_thread_limiter().total_tokens = threads
        yield

    app = FastAPI(
        lifespan=lifespan,
        title="deltasql",
        version=__version__,
        summary="Delta Lake tables whose transaction log is a SQL database",
        openapi_url="/api/openapi.json",
        # Their scripts come from other sites, but this must work offline.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    problems.install(app)
    app.add_middleware(Limits)
    figures = CollectorRegistry()
    figures.register(LakeFigures(service))

    @app.get("/healthz", tags=["process"])
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["process"], responses={503: {"model": Readiness}})
    def ready(served: Served, response: Response) -> Readiness:
        """Whether the database answers and the worker lives; 503 if not."""
        checks = served.checks()
        found = Readiness(all(checks.values()), checks)
        response.status_code = 200 if found.ready else 503
        return found

    @app.get("/metrics", tags=["process"], response_class=PlainTextResponse)
    def measured(visitor: LakeReader) -> Response:
        """Metrics of this process, and figures about the lake, for Prometheus."""
        del visitor
        text = generate_latest(metrics.REGISTRY) + generate_latest(figures)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    for router in API:
        app.include_router(router)
    for router in PAGES:
        app.include_router(router, include_in_schema=False)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    static = files("deltasql.serve") / "static"
    app.mount("/static", StaticFiles(directory=str(static)), name="static")
    return app
