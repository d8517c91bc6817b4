"""The service: serve, and the tokens that it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltasql.cli.session import Session, command
from deltasql.errors import ConfigError
from deltasql.secrecy import redacted


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "serve",
        examples=[
            "deltasql serve",
            "deltasql serve --host 0.0.0.0 --token-file tokens.toml",
        ],
    )(serve)
    command(
        app,
        "token",
        examples=[
            "deltasql token grafana >> tokens.toml",
            "deltasql token etl --kind operate --schema sales >> tokens.toml",
        ],
    )(token)


def serve(
    session: Session,
    host: Annotated[
        str,
        typer.Option("--host", help="Address; any but loopback needs tokens.", metavar="ADDRESS"),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", help="Port; 0 takes a free one.", metavar="PORT", min=0, max=65535),
    ] = 8080,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only HTTP; the worker runs elsewhere.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="TOML file with the tokens' hashes.", metavar="FILE"),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", help="Certificate, PEM.", metavar="FILE")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="Its key, PEM.", metavar="FILE")
    ] = None,
) -> None:
    """Serve the lake over HTTP, until SIGTERM or Ctrl-C.

    Dashboard, JSON API, metrics, and the mirror's worker. Several may run side by side.
    """
    try:
        from deltasql.serve.running import Address, serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            "the service's packages are not installed",
            cause=f"{error.name} is missing",
            remedy="pip install 'deltasql[serve]'",
        ) from None
    address = Address(host=host, port=port, certificate=tls_cert, key=tls_key)
    with session.lake(log_level="info") as lake:
        serve(
            lake,
            address,
            token_file=token_file,
            with_worker=not no_worker,
            announce=lambda place: session.out.note(f"serving at {place}"),
        )


def token(
    session: Session,
    name: Annotated[str, typer.Argument(help="Whose token it is.", metavar="NAME")],
    kind: Annotated[str, typer.Option("--kind", help="read, or operate.", metavar="KIND")] = "read",
    schema: Annotated[
        list[str] | None,
        typer.Option("--schema", help="Only tables of this schema; repeatable.", metavar="NAME"),
    ] = None,
) -> None:
    """Create a token for the service.

    The entry for the token file goes to stdout; the token itself is shown once, on stderr.
    """
    from deltasql.serve.tokens import Kind, new_token

    if kind not in set(Kind):
        raise typer.BadParameter("the kind is read or operate")
    if any(redacted(word) != word for word in (name, *(schema or ()))):
        raise typer.BadParameter("this looks like a URL with a password", param_hint="NAME")
    secret, digest = new_token()
    if session.out.is_json:
        found = {"name": name, "kind": kind, "token": secret, "sha256": digest}
        session.out.record(found | ({"schemas": schema} if schema else {}))
        return
    lines = ["[[tokens]]", f"name = {_quoted(name)}", f'kind = "{kind}"', f'sha256 = "{digest}"']
    if schema:
        lines.append(f"schemas = [{', '.join(map(_quoted, schema))}]")
    session.out.raw("\n".join(lines))
    session.out.note(f"the token, shown only now: {secret}")


def _quoted(text: str) -> str:
    """A text as TOML has it; JSON's form is one of TOML's."""
    import json

    return json.dumps(text)
