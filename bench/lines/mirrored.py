"""How soon commit files are in the mirror, beside eight writers and after a pause."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256

import psycopg
from obstore import put
from obstore.store import S3Store

from bench import ours, workers
from bench.lab import Lab, say
from bench.report import Row
from bench.workers import Opener, Tally
from deltasql import Lake
from deltasql.delta_log.names import commit_name
from deltasql.objectstore import ObjectStore
from tests.parts import seaweedfs

WRITERS = 8
ROUNDS = 2
_SPACING = 1_000_000
# From the time that SQL gave the commit to the time that SQL knows its file to be there, so that
# the commit itself is in it too.
_LAGS = """
    SELECT extract(epoch FROM s.mirrored_at) * 1000 - v.in_commit_timestamp
    FROM dl_mirror_status AS s
    JOIN dl_table_versions AS v ON v.table_id = s.table_id AND v.version = s.version
    WHERE s.version > %s AND s.json_written
    ORDER BY 1
"""
_TRUTH = "SELECT version, digest FROM dl_table_versions WHERE table_id = %s ORDER BY version"


# --- one small commit -----------------------------------------------------------------


def latency_local(lab: Lab) -> Iterator[Row]:
    with lab.database("latency") as url:
        location = lab.folder("latency").as_uri()
        with ours.connect(url, location, mirror="sync") as lake:
            yield _latency(lab, url, lake, name="latency-local", where="local disk", bar=20)


def latency_s3(lab: Lab) -> Iterator[Row]:
    server = lab.seaweedfs
    with lab.database("latency") as url:
        location = server.location(f"latency-{time.time_ns()}")
        with ours.connect(url, location, mirror="sync", options=server.options()) as lake:
            yield _latency(lab, url, lake, name="latency-s3", where="S3 on loopback", bar=100)


def _latency(lab: Lab, url: str, lake: Lake, *, name: str, where: str, bar: float) -> Row:
    table = ours.create_files_table(lake, partitioned=False)
    count, warm = lab.scaled(300, least=30), 10
    lab.settle()
    for number in range(count + warm):
        table.commit([ours.add_file(number, partitioned=False)])
    lags = _lags(url, after=warm)
    _must(len(lags) == count, f"{count} commits were mirrored, SQL knows of {len(lags)}")
    return Row(
        name=name,
        work=f"mirror a commit of one add, {where}, p95",
        ours=_share(lags, 0.95),
        unit="ms",
        better="less",
        bar=bar,
        note=f"{count} commits of one writer, sync; median {_share(lags, 0.5):.1f} ms, p99 "
        f"{_share(lags, 0.99):.1f} ms; from the in-commit time to `mirrored_at`",
    )


# --- eight writers --------------------------------------------------------------------


def writers_append(lab: Lab) -> Iterator[Row]:
    yield from _writers(lab, "append", "append of 3 rows with its file", bar=0.5)


def writers_commit(lab: Lab) -> Iterator[Row]:
    yield from _writers(lab, "commit", "a commit of one given add", bar=None)


def _writers(lab: Lab, kind: str, work: str, *, bar: float | None) -> Iterator[Row]:
    with lab.database("mirrored") as url, lab.database("bare") as bare:
        places = {"sync": (url, lab.folder("mirrored")), "off": (bare, lab.folder("bare"))}
        for mode, (place, folder) in places.items():
            with ours.connect(place, folder.as_uri(), mirror=mode) as lake:
                _table(lake, kind)
        tallies: dict[str, list[Tally]] = {"sync": [], "off": []}
        for turn in range(ROUNDS):
            for mode, (place, folder) in places.items():
                lab.settle()
                crew = _crew(kind, place, folder.as_uri(), turn, mode)
                tallies[mode].append(workers.run(crew, seconds=lab.seconds))
                say(f"  round {turn + 1}, mirror {mode}: {tallies[mode][-1].rate:,.0f}/s")
        mirrored, alone = (workers.combined(tallies[mode]) for mode in ("sync", "off"))
        lags = _lags(url, after=0)
        with ours.connect(url, places["sync"][1].as_uri()) as lake:
            name = "t0" if kind == "append" else ours.FILES
            _must_be_mirrored(url, lake.table(name).objects, lake.table(name).table_id)
    yield Row(
        name=f"writers-{kind}",
        work=f"{WRITERS} writers, one table, {work}, sync",
        ours=mirrored.rate,
        peer=alone.rate,
        peer_name="no mirror",
        unit="commits/s",
        better="more",
        bar=bar,
        note=f"failed: {mirrored.failed} and {alone.failed}; longest wait {mirrored.longest:.2f} s "
        f"and {alone.longest:.2f} s; local disk",
    )
    yield Row(
        name=f"lag-{kind}",
        work="the same, lag of the mirror, p99",
        ours=_share(lags, 0.99),
        unit="ms",
        better="less",
        bar=1000,
        note=f"of {len(lags):,} versions; median {_share(lags, 0.5):.0f} ms, longest "
        f"{lags[-1]:.0f} ms",
    )


def _table(lake: Lake, kind: str) -> None:
    if kind == "append":
        ours.create_small_table(lake, "t0")
    else:
        ours.create_files_table(lake, partitioned=False)


def _crew(kind: str, url: str, location: str, turn: int, mode: str) -> list[Opener]:
    numbers = range(turn * WRITERS, (turn + 1) * WRITERS)
    if kind == "append":
        return [partial(ours.appender, url, location, "t0", n, mirror=mode) for n in numbers]
    return [
        partial(ours.committer, url, location, n * _SPACING, partitioned=False, mirror=mode)
        for n in numbers
    ]


# --- a backlog ------------------------------------------------------------------------


def backlog_s3(lab: Lab) -> Iterator[Row]:
    """Versions committed while the mirror was off, then mirrored; and bare puts of the same."""
    server, versions = lab.seaweedfs, lab.scaled(1_000, least=50)
    prefix = f"backlog-{time.time_ns()}"
    with lab.database("backlog") as url:
        location = server.location(prefix)
        # No checkpoints fall due: the line is about commit files.
        with ours.connect(url, location, options=server.options()) as lake:
            table = ours.create_files_table(lake, partitioned=False)
            for number in range(versions - 1):
                table.commit([ours.add_file(number, partitioned=False)])
            bodies = [record.body for record in lake.store.commits(table.table_id, after=-1)]
        given = {"mirror.checkpoint_interval": "1000000", **server.options()}
        rates: dict[str, list[float]] = {"ours": [], "bare": []}
        with ours.connect(url, location, mirror="async", options=given) as lake:
            table = lake.table(ours.FILES)
            for turn in range(ROUNDS):
                lab.settle()
                rates["bare"].append(versions / _bare_puts(server, f"{prefix}-{turn}", bodies))
                lab.settle()
                started = time.perf_counter()
                done = lake.mirror.run(once=True)
                rates["ours"].append(versions / (time.perf_counter() - started))
                _must(done == versions, f"{done} of {versions} versions were mirrored")
                _must_be_mirrored(url, table.objects, table.table_id)
                say(
                    f"  round {turn + 1}: {rates['ours'][-1]:.0f}/s, bare {rates['bare'][-1]:.0f}/s"
                )
                _unmirror(lake, table.table_id, table.objects)
    mine, theirs = (sum(rates[side]) / ROUNDS for side in ("ours", "bare"))
    yield Row(
        name="backlog-s3",
        work=f"a backlog of {versions:,} versions, S3 on loopback",
        ours=mine,
        peer=theirs,
        peer_name="bare puts",
        unit="versions/s",
        better="more",
        bar=0.8,
        note="ours verifies digests, puts V.json if absent in order, and V.crc, and records the "
        "status; bare: obstore.put of the same bodies, one after the other, unconditional",
    )


def _bare_puts(server: seaweedfs.SeaweedFs, prefix: str, bodies: list[bytes]) -> float:
    store = S3Store(
        seaweedfs.BUCKET,
        prefix=prefix,
        config={
            "endpoint": f"http://127.0.0.1:{server.port}",
            "region": "us-east-1",
            "access_key_id": seaweedfs.ACCESS_KEY,
            "secret_access_key": seaweedfs.SECRET_KEY,
        },
        client_options={"allow_http": True},
    )
    started = time.perf_counter()
    for version, body in enumerate(bodies):
        put(store, f"_delta_log/{commit_name(version)}", body, use_multipart=False)
    return time.perf_counter() - started


def _unmirror(lake: Lake, table_id: int, objects: ObjectStore) -> None:
    objects.delete([item.path for item in objects.list("_delta_log")])
    lake.store.forget_mirrored(table_id, first=0, last=2**40)


# --- the work was done ----------------------------------------------------------------


def _lags(url: str, *, after: int) -> list[float]:
    with psycopg.connect(url) as connection:
        return [float(row[0]) for row in connection.execute(_LAGS, [after])]


def _share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def _must_be_mirrored(url: str, objects: ObjectStore, table_id: int) -> None:
    """Every version's file is there, with the bytes that were committed."""
    with psycopg.connect(url) as connection:
        truth = dict(connection.execute(_TRUTH, [table_id]).fetchall())
    for version, digest in truth.items():
        body = objects.read(f"_delta_log/{commit_name(version)}")
        _must(sha256(body).digest() == digest, f"version {version} is not what was committed")


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise RuntimeError(f"the benchmark is wrong: {problem}")
