"""compose.yaml is what Compose reads, and says what deltasql understands.

`compose_spec.json` is the schema of the Compose specification, as docker-compose 1.29.2 has it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from deltasql.cli.main import run
from deltasql.settings.sources import resolve

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(Path(__file__).with_name("compose_spec.json").read_text())


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_it_follows_the_specification(compose):
    # Older than these two; both are in the specification since.
    compose = {key: value for key, value in compose.items() if key != "name"}
    jsonschema.Draft7Validator(SCHEMA).validate(compose)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(SCHEMA).validate({"services": {"x": {"imagge": "y"}}})


def test_names_lead_somewhere(compose):
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"]
        # Published on loopback only.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", ["init", "serve", "deltasql"])
def test_deltasql_understands_it(compose, name, capsys):
    service = compose["services"][name]
    values = {
        key: re.sub(r"\$\{\w+:[-?]([^}]*)\}", r"\1", value)
        for key, value in service["environment"].items()
    }
    found = resolve(environment=values)
    assert found.text("url") == "postgresql://deltasql@postgres/lake"
    assert found.storage["s3.endpoint"] == "http://s3:8333"
    assert run([*service["command"], "--help"]) == 0
    assert "Usage: deltasql" in capsys.readouterr().out


def test_no_password_has_a_default(compose):
    text = (ROOT / "compose.yaml").read_text()
    assert not re.findall(r"\$\{\w*(?:PASSWORD|SECRET)\w*:-", text)
    assert len(re.findall(r"\$\{(?:POSTGRES_PASSWORD|S3_SECRET):\?", text)) == 4


def test_images_are_those_of_a_digest(compose):
    images = {service["image"] for service in compose["services"].values() if "image" in service}
    foreign = images - {"deltasql"}
    assert len(foreign) == 2
    assert all(re.fullmatch(r"[\w/.-]+:[\w.]+@sha256:[0-9a-f]{64}", image) for image in foreign)


def test_its_first_line_makes_passwords_of_ones_own(tmp_path):
    """As the head of the file says; twice, and never the same."""
    head = (ROOT / "compose.yaml").read_text().partition("name:")[0]
    (line,) = re.findall(r"^#\s+(printf .* > \.env)$", head, re.MULTILINE)
    made = []
    for _ in range(2):
        subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
        made.append((tmp_path / ".env").read_text())
        pattern = r"POSTGRES_PASSWORD=[0-9a-f]{48}\nS3_SECRET=[0-9a-f]{48}\n"
        assert re.fullmatch(pattern, made[-1])
    assert made[0] != made[1]


def test_the_image_installs_by_hash():
    text = (ROOT / "Dockerfile").read_text()
    assert "--no-deps --require-hashes -r /build/requirements.lock" in text
    assert "pip install --no-cache-dir --no-index --find-links /packages" in text


def test_the_image_is_built_from_what_is_there():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)


def test_what_it_keeps_secret_is_not_committed():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/.env", "/tokens.toml"} <= set(ignored)
