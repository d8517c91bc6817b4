"""Appends of many callers, collected into one file and one commit."""

from deltasql.lake.appending.appender import Appender

__all__ = ["Appender"]
