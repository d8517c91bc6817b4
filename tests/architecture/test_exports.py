"""The public surface is what `__all__` says, documented, and its errors form one tree."""

import inspect
import pickle
from dataclasses import fields

import pytest

import deltasql
import deltasql.errors

PARENT_OF_ERROR = {
    "CommitError": "DeltaSqlError",
    "VersionConflictError": "CommitError",
    "ConcurrentAppendError": "CommitError",
    "ConcurrentDeleteReadError": "CommitError",
    "ConcurrentDeleteDeleteError": "CommitError",
    "MetadataChangedError": "CommitError",
    "ProtocolChangedError": "CommitError",
    "ConcurrentTransactionError": "CommitError",
    "CommitStateUnknownError": "CommitError",
    "ValidationError": "DeltaSqlError",
    "TableError": "DeltaSqlError",
    "TableNotFoundError": "TableError",
    "TableExistsError": "TableError",
    "LocationTakenError": "TableExistsError",
    "VersionNotFoundError": "TableError",
    "SchemaMismatchError": "TableError",
    "LogFormatError": "DeltaSqlError",
    "UnsupportedFeatureError": "LogFormatError",
    "StoreError": "DeltaSqlError",
    "DatabaseError": "StoreError",
    "StoreTimeoutError": "StoreError",
    "SchemaVersionError": "StoreError",
    "DamagedLogError": "StoreError",
    "MirrorError": "DeltaSqlError",
    "MirrorConflictError": "MirrorError",
    "MirrorGapError": "MirrorError",
    "ConfigError": "DeltaSqlError",
}


def test_all_is_sorted():
    assert list(deltasql.__all__) == sorted(deltasql.__all__)


@pytest.mark.parametrize("name", getattr(deltasql, "__all__", []))
def test_public_name_is_documented(name):
    exported = getattr(deltasql, name)
    if inspect.isclass(exported) or inspect.isroutine(exported):
        assert exported.__doc__
        # A dataclass without a docstring is given its signature for one.
        assert not exported.__doc__.startswith(f"{exported.__name__}(")


@pytest.mark.parametrize(("name", "parent"), PARENT_OF_ERROR.items())
def test_error_has_its_place_in_the_tree(name, parent):
    error = getattr(deltasql.errors, name)
    assert issubclass(error, getattr(deltasql.errors, parent))
    assert error.__doc__


@pytest.mark.parametrize("name", PARENT_OF_ERROR)
def test_error_has_typed_fields_that_pickle(name):
    kind = getattr(deltasql.errors, name)
    values = {item.name: f"the {item.name}" for item in fields(kind)}
    copy = pickle.loads(pickle.dumps(kind(**values)))
    assert type(copy) is kind
    assert {item.name: getattr(copy, item.name) for item in fields(kind)} == values
    with pytest.raises(TypeError):
        kind("a problem", **values, undeclared=1)


def test_every_error_has_the_root():
    errors = [
        thing
        for thing in vars(deltasql.errors).values()
        if inspect.isclass(thing)
        and issubclass(thing, BaseException)
        and thing.__module__ == deltasql.errors.__name__
    ]
    assert all(issubclass(error, deltasql.errors.DeltaSqlError) for error in errors)
