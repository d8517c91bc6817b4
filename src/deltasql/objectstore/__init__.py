"""Bytes in buckets: local disk, S3, GCS and Azure behind one small seam, on obstore."""

from deltasql.objectstore.store import ObjectInfo, ObjectNotFoundError, ObjectStore, open_store

__all__ = ["ObjectInfo", "ObjectNotFoundError", "ObjectStore", "open_store"]
