"""Appends of many callers, put together into one file and one commit."""

from deltasql.lake.appending.appender import Appender

__all__ = ["Appender"]
