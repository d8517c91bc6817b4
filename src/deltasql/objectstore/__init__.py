"""Bytes in buckets: local disk, S3, GCS and Azure behind one small interface, on obstore."""

from deltasql.objectstore.failures import ObjectNotFoundError
from deltasql.objectstore.output import Output
from deltasql.objectstore.store import Item, ObjectInfo, ObjectStore, PutChain, open_store

__all__ = [
    "Item",
    "ObjectInfo",
    "ObjectNotFoundError",
    "ObjectStore",
    "Output",
    "PutChain",
    "open_store",
]
