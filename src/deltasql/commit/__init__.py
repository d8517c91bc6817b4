"""The way from a list of actions to a version: checked, proposed, committed, retried."""

from deltasql.commit.loop import CommitLoop
from deltasql.commit.request import CommitRequest
from deltasql.commit.states import StateCache

__all__ = ["CommitLoop", "CommitRequest", "StateCache"]
