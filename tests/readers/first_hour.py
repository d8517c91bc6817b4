"""The first hour of somebody with the docs: a session for a lake on S3, a write, a merge, a stream.

Run as a program of its own, with nothing but what the docs name: DELTASQL_URL and
DELTASQL_LOCATION, here of the writer's role; the argument is the URL of the reader's.
"""

from __future__ import annotations

import json
import sys
import tempfile

import deltasql
import deltasql.spark


def main(readers_url: str, readers_options: dict[str, str]) -> None:
    lake = deltasql.connect()
    spark = deltasql.spark.session("first hour", location=lake.location)
    db = deltasql.spark.attach(spark, lake, catalog="lake")

    spark.sql("CREATE TABLE lake.sales.visits (id BIGINT, day DATE) PARTITIONED BY (day)")
    spark.sql("INSERT INTO lake.sales.visits VALUES (1, DATE'2026-11-01'), (2, DATE'2026-11-01')")
    spark.sql("""
        MERGE INTO lake.sales.visits t
        USING (SELECT 2L AS id, DATE'2026-11-02' AS day
               UNION ALL SELECT 3L, DATE'2026-11-02') s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")

    spark.sql("CREATE TABLE lake.sales.copies (id BIGINT, day DATE)")
    with tempfile.TemporaryDirectory() as checkpoints:
        db.write(spark.createDataFrame([(4, "x")], "id long, note string"), "sales.notes")
        query = (
            db.stream("sales.notes")
            .selectExpr("id", "DATE'2026-11-03' AS day")
            .writeStream.foreachBatch(db.sink("sales.copies"))
            .option("checkpointLocation", checkpoints)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    # Another role in the same session: it reads, and is refused before it writes anything.
    reader = deltasql.connect(readers_url, location=lake.location, settings=readers_options)
    seen = deltasql.spark.attach(spark, reader, name="reader")
    try:
        seen.write(seen.read("sales.visits"), "sales.visits")
        refused = ""
    except deltasql.DatabaseError as error:
        refused = f"{error.problem}; {error.remedy}"
    found = {
        "visits": sorted(list(row) for row in seen.read("sales.visits").collect()),
        "copies": sorted(list(row) for row in seen.read("sales.copies").collect()),
        "refused": refused,
        "pending": sum(item.lag_versions for item in lake.mirror.status()),
    }
    print("RESULT " + json.dumps(found, default=str))
    reader.close()
    lake.close()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
