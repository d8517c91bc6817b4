"""What docs/adopting.md takes for granted: a lake, and Delta tables that somebody else wrote."""

import pyarrow as pa
from deltalake import write_deltalake

import deltasql

# Buckets are folders here: the calls are the same.
PLACES = {
    "s3://bucket/": "./bucket/",
    "s3://other/": "./other/",
    "file:///elsewhere/": "./elsewhere/",
}

for number in range(3):
    write_deltalake("bucket/sales", pa.table({"id": [number]}), mode="append")
write_deltalake("bucket/old/orders", pa.table({"id": [1]}))
lake = deltasql.connect("sqlite:///lake.db", location="./lake")
