"""Every object store passes the contract: disk, memory, real S3 servers, Azurite, a real GCS."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltasql.objectstore import ObjectStore, open_store
from deltasql.testing.faulty_store import FaultyStore
from deltasql.testing.object_store import ObjectStoreContract
from tests.parts import versitygw as versitygw_part
from tests.parts.azurite import Azurite
from tests.parts.seaweedfs import SeaweedFs
from tests.parts.versitygw import VersityGateway


class TestLocal(ObjectStoreContract):
    rounds = 50

    @pytest.fixture
    def object_store(self, tmp_path: Path) -> ObjectStore:
        return open_store(str(tmp_path / "new" / "root"))


class TestMemory(ObjectStoreContract):
    @pytest.fixture
    def object_store(self) -> ObjectStore:
        return open_store("memory:///")


class TestFaultless(ObjectStoreContract):
    """The store that injects faults is a store itself, as long as it injects none."""

    @pytest.fixture
    def object_store(self, tmp_path: Path) -> ObjectStore:
        return FaultyStore(open_store(str(tmp_path)))


class TestSeaweedFs(ObjectStoreContract):
    racers = 4
    rounds = 3
    big_objects_race_safely = False

    @pytest.fixture
    def object_store(self, seaweedfs: SeaweedFs) -> ObjectStore:
        return open_store(seaweedfs.location(f"a lake/{uuid.uuid4()}"), seaweedfs.options())


# Its build takes minutes, and one S3 server is enough where it was not built.
if versitygw_part.PROGRAM.exists():

    class TestVersityGateway(ObjectStoreContract):
        @pytest.fixture
        def object_store(self, versitygw: VersityGateway) -> ObjectStore:
            return open_store(versitygw.location(f"a lake/{uuid.uuid4()}"), versitygw.options())


class TestAzurite(ObjectStoreContract):
    rounds = 5

    @pytest.fixture
    def object_store(self, azurite: Azurite) -> ObjectStore:
        return open_store(azurite.location(f"a lake/{uuid.uuid4()}"), azurite.options())


@pytest.mark.gcs
class TestGcs(ObjectStoreContract):
    rounds = 3

    @pytest.fixture
    def object_store(self) -> Iterator[ObjectStore]:
        bucket = os.environ.get("BUCKET")
        if not bucket:
            pytest.skip("no honest GCS emulator exists; run: make test-gcs BUCKET=…")
        store = open_store(f"gs://{bucket}/deltasql-contract/{uuid.uuid4()}")
        yield store
        store.delete([info.path for info in store.list()])
