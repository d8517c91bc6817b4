"""Which statements an application may run inside a transaction of the lake."""

import pytest

from deltasql.errors import ValidationError
from deltasql.store.statements import refuse_transaction_control

STEERING = [
    "COMMIT", "commit;", "  \n\t Commit Work", "END", "end transaction", "ABORT", "ROLLBACK",
    "ROLLBACK TO here", "BEGIN", "BEGIN IMMEDIATE", "START TRANSACTION", "SAVEPOINT here",
    "RELEASE here", "RELEASE SAVEPOINT here", "PREPARE TRANSACTION 'x'",
    "COMMIT PREPARED 'x'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET LOCAL transaction_read_only = on", "SET transaction_isolation = 'serializable'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET default_transaction_read_only = on", "ATTACH 'x' AS y", "DETACH y", "USE y",
    "FORCE CHECKPOINT",
    # What outlasts the transaction.
    "SET search_path TO other", 'set "search_path" = other', "SET SESSION search_path = x",
    "SET ROLE other", "RESET ALL", "RESET search_path", "DISCARD ALL", "PRAGMA query_only = 1",
    "LISTEN x", "UNLISTEN *", "LOAD 'x'", "INSTALL x", "SET GLOBAL threads = 1",
    "SELECT 1; SET search_path = x", "/* */ pragma synchronous=off",
    # Behind comments, strings and other statements.
    "-- harmless\nCOMMIT", "/* harmless */ COMMIT", "/**/COMMIT", "/* /* */ COMMIT -- */",
    "PREPARE /* x */ TRANSACTION 'y'", "SELECT 1; COMMIT", ";;COMMIT", "(COMMIT",
    "SELECT 'it''s'; COMMIT", 'SELECT "a;b"; COMMIT', "SELECT $$ ; $$; COMMIT",
    "SELECT $x$ $$ $x$; COMMIT", r"SELECT E'\''; COMMIT", "SELECT '\\'; COMMIT",
    "SELECT 1 -- no\n; COMMIT", "\ufeffCOMMIT",
]  # fmt: skip
HARMLESS = [
    "SELECT 1", "INSERT INTO outbox VALUES (1, 'COMMIT; ROLLBACK')", "SELECT '--'; SELECT 1",
    "SELECT 1 -- ; COMMIT", "/* ; COMMIT */ SELECT 2", "/* /* */ ; */ SELECT 2",
    "CREATE TABLE commit_log (begin_at int)", "SELECT $$; COMMIT;$$", "PREPARE x AS SELECT 1",
    "SET LOCAL statement_timeout = 1", "SET CONSTRAINTS ALL DEFERRED",
    "DO $$ BEGIN NULL; END $$", 'SELECT 1 AS "; COMMIT"',
    r"SELECT E'\'; COMMIT;'", "SELECT CASE WHEN true THEN 1 END", "UPDATE jobs SET start = 1",
    "DELETE FROM used", "WITH x AS (SELECT 1) SELECT * FROM x", "",
]  # fmt: skip


@pytest.mark.parametrize("statement", STEERING)
def test_what_steers_a_transaction_is_refused(statement):
    with pytest.raises(ValidationError, match="can't be run inside a transaction"):
        refuse_transaction_control(statement)


@pytest.mark.parametrize("statement", HARMLESS)
def test_what_does_not_is_not(statement):
    refuse_transaction_control(statement)
