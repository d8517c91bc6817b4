"""Writers of the two kinds of grants: strict ones call functions, and have no right to rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import psycopg
from psycopg import sql

from bench import ours
from bench.lab import Lab
from bench.lines.writers import ROUNDS, SPACING, WRITERS, in_turn
from bench.report import Row
from bench.workers import Opener
from deltasql.lake.database import grants

_KINDS = ("strict", "plain")


def strict_beside_plain(lab: Lab) -> Iterator[Row]:
    yield _row(lab, "commit-strict", "a commit of one given add", mirror="off")
    yield _row(lab, "append-strict", "append of 3 rows with its file, mirrored", mirror="sync")


def _row(lab: Lab, name: str, work: str, *, mirror: str) -> Row:
    with ExitStack() as stack:
        urls = {kind: stack.enter_context(lab.database(kind)) for kind in _KINDS}
        places = {kind: lab.folder(kind).as_uri() for kind in _KINDS}
        for kind, url in urls.items():
            with ours.connect(url, places[kind]) as lake:
                ours.create_files_table(lake, partitioned=False)
                ours.create_small_table(lake, "t0")
            urls[kind] = _as_writer(url, kind)

        def crew(kind: str, turn: int) -> list[Opener]:
            given = urls[kind], places[kind]
            if mirror == "off":
                first = turn * WRITERS
                return [
                    partial(ours.committer, *given, (first + n) * SPACING, partitioned=False)
                    for n in range(WRITERS)
                ]
            return [
                partial(ours.appender, *given, "t0", turn * WRITERS + n, mirror=mirror)
                for n in range(WRITERS)
            ]

        mine, theirs = in_turn(lab, partial(crew, "strict"), partial(crew, "plain"))
    return Row(
        name=name,
        work=f"{WRITERS} writers with strict grants, one table, {work}",
        ours=mine.rate,
        peer=theirs.rate,
        peer_name="plain",
        unit="commits/s",
        better="more",
        bar=0.9,
        note=f"{ROUNDS} rounds each; failed: strict {mine.failed}, plain {theirs.failed}; longest "
        f"wait: strict {mine.longest * 1000:.0f} ms, plain {theirs.longest * 1000:.0f} ms",
    )


def _as_writer(url: str, kind: str) -> str:
    names = {role: f"{kind}_{role}" for role in ("reader", "writer", "mirror")}
    with psycopg.connect(url, autocommit=True) as connection:
        for role in names.values():
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
            if known.fetchone() is None:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        connection.execute(grants(**names, strict=kind == "strict"))
    return url.replace("postgres@", f"{names['writer']}@", 1)
