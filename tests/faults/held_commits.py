"""Something happens while the server is in the middle of a COMMIT, which then succeeds.

A deferred trigger holds the first commit up for a moment: long enough to cut whatever the
answer would come back through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.stress.database import query

HOLD_UP = """
CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.7); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER held_up AFTER INSERT ON dl_table_versions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold_up()
"""
ASLEEP = """
SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()
"""


@contextmanager
def commit_held(
    url: str, meanwhile: Callable[[], object], afterwards: Callable[[], object] = lambda: None
) -> Iterator[threading.Event]:
    """Call `meanwhile` during the first COMMIT of the block and `afterwards` once it is done.

    The event says that it happened.
    """
    query(url, HOLD_UP)
    over, happened = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            if query(url, ASLEEP):
                meanwhile()
                happened.set()
                while query(url, ASLEEP):
                    time.sleep(0.01)
                query(url, "DROP FUNCTION hold_up() CASCADE")
                afterwards()
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield happened
    finally:
        over.set()
        watching.join()
