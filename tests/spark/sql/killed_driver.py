"""A driver that writes by SQL, to be killed: `python -m tests.spark.sql.killed_driver JSON`.

It appends, merges, optimizes and moves amounts between two tables in transactions, and notes in a
journal what it begins and what it was told; started again, it goes on where that ends.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from pathlib import Path

import deltasql
import deltasql.spark
from deltasql.errors import CommitError
from tests.spark.conftest import quick
from tests.stress.journal import Journal, Told, new_tag

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
KINDS = ("append", "merge", "begin", "block", "optimize", "call_optimize")
ACCOUNTS = 4


class Driver:
    def __init__(self, db: deltasql.spark.Database, job: dict, journal: Journal) -> None:
        self.db = db
        self.sql = db.spark.sql
        self.job = job
        self.journal = journal
        told = Told.read(journal.path)
        self.done = len(told.done)
        self.dice = random.Random(f"{job['slot']} {len(told.intents)}")

    def run(self) -> None:
        """All kinds in turn, each until it succeeds."""
        while self.done < self.job["operations"]:
            kind = KINDS[(self.done + 3 * self.job["slot"]) % len(KINDS)]
            tag = new_tag(self.job["slot"])
            self.journal.begin(kind, {}, tag=tag)
            try:
                getattr(self, f"_{kind}")(tag)
            except Exception as error:
                if not isinstance(error, CommitError) and "DELTA_CONCURRENT" not in str(error):
                    raise
                self.journal.refused(tag, error)
                continue
            self.journal.done(tag, {})
            self.done += 1

    def _append(self, tag: str) -> None:
        self.sql(f"INSERT INTO lake.k.log VALUES ('{tag}', {self.dice.randrange(100)})")

    def _merge(self, tag: str) -> None:
        self.db.spark.conf.set(USER_METADATA, tag)
        try:
            self.sql(
                f"MERGE INTO lake.k.counters t USING (SELECT {self.dice.randrange(6)}L AS id) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1 "
                "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 1)"
            )
        finally:
            self.db.spark.conf.unset(USER_METADATA)

    def _begin(self, tag: str) -> None:
        """A transaction in SQL alone."""
        self.sql("CALL lake.system.begin()")
        try:
            self._transfer(tag)
        except Exception:
            self.sql("CALL lake.system.rollback()")
            raise
        self.sql("CALL lake.system.commit()").collect()

    def _block(self, tag: str) -> None:
        with self.db.transaction():
            self._transfer(tag)

    def _transfer(self, tag: str) -> None:
        source, target = self.dice.sample(["a", "b"], 2)
        giver, taker = self.dice.randrange(ACCOUNTS), self.dice.randrange(ACCOUNTS)
        amount = self.dice.randrange(1, 10)
        self.sql(f"UPDATE lake.k.{source} SET n = n - {amount} WHERE id = {giver}")
        self.sql(
            f"MERGE INTO lake.k.{target} t USING (SELECT {taker}L AS id) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET n = t.n + {amount}"
        )
        self.sql(f"INSERT INTO lake.k.ledger VALUES ('{tag}', '{source}', {amount})")

    def _optimize(self, tag: str) -> None:
        del tag
        self.sql("OPTIMIZE lake.k.log")

    def _call_optimize(self, tag: str) -> None:
        del tag
        self.sql("CALL lake.system.optimize('k.log')").collect()


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = deltasql.spark.session(
        "killed",
        master="local[2]",
        jars=job["jars"],
        config={**quick(Path(job["work"])), "spark.jars": ",".join(job["more_jars"])},
    )
    spark.sparkContext.setLogLevel("OFF")
    journal = Journal(Path(job["journal"]))
    try:
        with deltasql.connect(
            job["url"], location=job["location"], settings=job["settings"]
        ) as lake:
            Driver(deltasql.spark.attach(spark, lake, catalog="lake"), job, journal).run()
    except BaseException:
        journal.failed(traceback.format_exc())
        raise
    print("DONE", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
