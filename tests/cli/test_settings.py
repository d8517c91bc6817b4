"""Settings by file, environment and flags, as a user meets them."""

from __future__ import annotations

import pytest

FILE = """
url = "postgresql://me:s3cret@db/lake"
[mirror]
mode = "async"
lag_alert = "2m"
[s3]
region = "eu-north-1"
secret_access_key = "s3cret"
[profiles.dev]
url = "sqlite:///dev.db"
[profiles.dev.mirror]
mode = "off"
"""


@pytest.fixture
def shown(program):
    (program.folder / "deltasql.toml").write_text(FILE)

    def show(*arguments, **environment):
        done = program("config", "show", *arguments, "-o", "json", **environment)
        assert "s3cret" not in done.out + done.err
        return {row["key"]: (row["value"], row["source"]) for row in done.json}

    return show


def test_later_wins_and_tells_where(shown):
    assert shown()["mirror.mode"] == ("async", "deltasql.toml")
    assert shown()["sql.timeout"] == ("30s", "default")
    variables = {"DELTASQL_MIRROR_MODE": "sync"}
    assert shown(**variables)["mirror.mode"] == ("sync", "DELTASQL_MIRROR_MODE")
    flag = shown("--set", "mirror.mode=off", **variables)
    assert flag["mirror.mode"] == ("off", "argument")


def test_secrets_are_masked(shown):
    found = shown()
    assert found["url"] == ("postgresql://me:***@db/lake", "deltasql.toml")
    assert found["s3.secret_access_key"] == ("***", "deltasql.toml")
    assert found["s3.region"] == ("eu-north-1", "deltasql.toml")


def test_profiles(shown):
    place = "deltasql.toml [profiles.dev]"
    variables = {"DELTASQL_MIRROR_MODE": "sync", "DELTASQL_URL": "sqlite:///env.db"}
    named = shown("--profile", "dev", **variables)
    assert named["url"] == ("sqlite:///dev.db", place)
    assert named["mirror.mode"] == ("off", place)
    assert named["mirror.lag_alert"] == ("2m", "deltasql.toml")
    chosen = shown(DELTASQL_PROFILE="dev", **variables)
    assert chosen["url"] == ("sqlite:///env.db", "DELTASQL_URL")
    assert shown("--profile", "dev", "--url", "sqlite:///x.db")["url"][1] == "argument"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[mirror]\nmoed = 'sync'", "did you mean mirror.mode?"),
        ("pool_size = 3", "did you mean sql.pool_size?"),
        ("[mirror]\nmode = 'sink'", "mirror.mode in deltasql.toml must be sync or async or off"),
        ("[sql]\npool_size = 'many'", "sql.pool_size in deltasql.toml must be a positive integer"),
        ("[sql]\npool_size = true", "sql.pool_size in deltasql.toml must be a positive integer"),
        ("[mirror]\nsync_timeout = [1]", "must be a duration"),
        ("[s3]\nregoin = 'x'", "did you mean s3.region?"),
        ("[mirror.mode]\nx = 1", "there is no setting 'mirror.mode.x'"),
        ("url = 7", "url must be text"),
        ("url = ", "is not TOML"),
    ],
)
def test_what_is_wrong_in_the_file(program, content, told):
    (program.folder / "deltasql.toml").write_text(content)
    failed = program("config", "show")
    assert failed.code == 1
    assert told in failed.err


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--set", "mirror.moed=sync"], {}, "did you mean mirror.mode?"),
        (["--set", "mirror.mode"], {}, "--set takes KEY=VALUE"),
        (["--profile", "dve"], {}, "there is no profile 'dve'"),
        (["--config", "nope.toml"], {}, "there is no file 'nope.toml'"),
        ([], {"DELTASQL_MIRROR_MOED": "x"}, "did you mean DELTASQL_MIRROR_MODE?"),
        ([], {"DELTASQL_SQL_TIMEOUT": "soon"}, "DELTASQL_SQL_TIMEOUT must be a duration"),
        ([], {"DELTASQL_CONFIG": "nope.toml"}, "there is no file"),
    ],
)
def test_what_is_wrong_elsewhere(program, arguments, environment, told):
    failed = program("config", "show", *arguments, **environment)
    assert failed.code == 1
    assert told in failed.err
