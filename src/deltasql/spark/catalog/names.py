"""Names for Spark: tables, where they are or will be, and namespaces.

Names in a lake have dots: a namespace exists while there is a table below it, or once somebody has
created it. In a lake case counts; to a session it does not, unless `spark.sql.caseSensitive` is
set: a name that is not there as it is spelt is another spelling of the only one that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltasql.errors import TableExistsError, TableNotFoundError, ValidationError
from deltasql.lake import locations, new_table
from deltasql.places import place_of
from deltasql.spark.catalog.places import Places, is_managed, plain
from deltasql.spark.catalog.spelling import meant
from deltasql.spark.catalog.staging import refused
from deltasql.spec import codec
from deltasql.spec.features import FENCE
from deltasql.store.interface import TableRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltasql.lake.catalog import Lake

# As Spark names what LOCATION says.
_LOCATION = "location"


class NamespaceProblem(Exception):  # noqa: N818 - it is an answer, raised as Spark's own there
    """A namespace that does not exist, already exists, or is not empty."""

    def __init__(self, kind: str, namespace: str) -> None:
        super().__init__(kind, namespace)
        self.kind = kind
        self.namespace = namespace


class Names:
    """Answers for the catalog."""

    def __init__(self, lake: Lake, places: Places) -> None:
        self._lake = lake
        self._places = places

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {
            "locate": self._locate,
            "table": self._table,
            "tables": self._tables,
            "place": self._place,
            "drop": self._drop,
            "rename": self._rename,
            "drop_feature": self._drop_feature,
            "namespaces": self._list_namespaces,
            "namespace": self._namespace,
            "create_namespace": self._create_namespace,
            "alter_namespace": self._alter_namespace,
            "drop_namespace": self._drop_namespace,
        }

    # --- tables -------------------------------------------------------------------------

    def _locate(self, question: Mapping[str, Any]) -> str | None:
        found = self._places.at(question["path"])
        return None if found is None else found.name

    def _found(self, question: Mapping[str, Any]) -> TableRecord | None:
        return self._places.named(question["name"], any_case=question["any_case"])

    def _name(self, question: Mapping[str, Any]) -> str:
        """Its name as the lake has it; of a table that is not there, as it was spelt."""
        found = self._found(question)
        name: str = question["name"] if found is None else found.name
        return name

    def _spelt(self, question: Mapping[str, Any]) -> str:
        """A namespace as the lake has it; one that is not there, as it was spelt."""
        namespace: str = question["namespace"]
        if not question["any_case"] or not namespace:
            return namespace
        found = meant(namespace, self._all_namespaces(), any_case=True)
        return namespace if found is None else found

    def _table(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        record = self._found(question)
        if record is None:
            return None
        return {
            "location": self._places.hadoop_path(record.location),
            "is_managed": is_managed(self._lake, record.location),
        }

    def _tables(self, question: Mapping[str, Any]) -> list[str]:
        namespace = self._spelt(question)
        self._must_exist(namespace)
        parts = (record.name.rpartition(".") for record in self._lake.store.tables())
        return [name for space, _, name in parts if space == namespace]

    def _place(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Where a table is or will be."""
        name, location = question["name"], question.get("location")
        if not question["is_name"]:
            raise _dotted(name, "table")
        new_table.check_name(name)
        existing = self._found(question)
        if existing is not None:
            name = existing.name
            if not question["may_exist"]:
                raise TableExistsError(f"there is already a table {name}")
            if location and place_of(plain(location)) != place_of(existing.location):
                raise ValidationError(
                    f"{name} can't be replaced at {location}",
                    cause=f"the table is at {existing.location}, and stays there",
                    remedy="leave the location out, or drop the table first",
                )
            path = self._places.hadoop_path(existing.location)
            mapping = self._lake.states.refresh(existing.table_id).column_mapping
            return {"location": path, "is_new": False, "name": name, "column_mapping": mapping}
        if question.get("block") is not None:
            raise refused("CREATE TABLE")
        space, dot, word = name.rpartition(".")
        name = f"{self._spelt({**question, 'namespace': space})}{dot}{word}"
        place = (
            locations.check_new(self._lake, plain(location)) if location else self._lake.place(name)
        )
        return {"location": self._places.promise(place), "is_new": True, "name": name}

    def _drop(self, question: Mapping[str, Any]) -> bool:
        try:
            self._lake.drop_table(self._name(question), purge=question["purge"])
        except TableNotFoundError:
            return False
        return True

    def _rename(self, question: Mapping[str, Any]) -> None:
        name, to = self._name(question), question["to"]
        if not question["is_name"]:
            raise _dotted(to, "table")
        taken = self._found({**question, "name": to})
        if taken is not None and taken.name != name:
            raise TableExistsError(f"there is already a table {taken.name}")
        try:
            self._lake.rename_table(name, to)
        except TableExistsError:
            raise TableExistsError(f"there is already a table {to}") from None

    def _drop_feature(self, question: Mapping[str, Any]) -> bool:
        """Drop a feature with the lake's own operation; False if the table lacks it, which Delta
        reports.
        """
        table, feature = self._lake.table(self._name(question)), question["feature"]
        state = table.snapshot().state
        if feature == FENCE or feature not in state.reader_features | state.writer_features:
            return False
        table.drop_feature(feature, truncate_history=question["truncate"])
        return True

    # --- namespaces -----------------------------------------------------------------------

    def _all_namespaces(self) -> Iterator[str]:
        yield from self._lake.store.namespaces()
        for record in self._lake.store.tables():
            space = record.name.rpartition(".")[0]
            while space:
                yield space
                space = space.rpartition(".")[0]

    def _list_namespaces(self, question: Mapping[str, Any]) -> list[str]:
        parent = self._spelt(question)
        self._must_exist(parent)
        return sorted(
            {item for item in self._all_namespaces() if item.rpartition(".")[0] == parent}
        )

    def _exists(self, namespace: str) -> bool:
        return not namespace or namespace in set(self._all_namespaces())

    def _must_exist(self, namespace: str) -> None:
        if not self._exists(namespace):
            raise NamespaceProblem("NamespaceNotFound", namespace)

    def _namespace(self, question: Mapping[str, Any]) -> dict[str, str] | None:
        namespace = self._spelt(question)
        if not self._exists(namespace):
            if question.get("must"):
                raise NamespaceProblem("NamespaceNotFound", namespace)
            return None
        return self._described(namespace)

    def _described(self, namespace: str) -> dict[str, str]:
        found: dict[str, str] = codec.loads(self._lake.store.namespaces().get(namespace, "{}"))
        return found

    def _create_namespace(self, question: Mapping[str, Any]) -> None:
        namespace = self._spelt(question)
        if not question["is_name"]:
            raise _dotted(namespace, "namespace")
        new_table.check_name(namespace)
        _must_have_no_place(namespace, question["properties"])
        properties = codec.dumps(question["properties"]).decode()
        store = self._lake.store
        if self._exists(namespace) or not store.create_namespace(namespace, properties):
            raise NamespaceProblem("NamespaceExists", namespace)

    def _alter_namespace(self, question: Mapping[str, Any]) -> None:
        namespace = self._spelt(question)
        self._must_exist(namespace)
        _must_have_no_place(namespace, question["properties"])
        known = self._described(namespace)
        for key, value in question["properties"].items():
            if value is None:
                known.pop(key, None)
            else:
                known[key] = value
        self._lake.store.describe_namespace(namespace, codec.dumps(known).decode())

    def _drop_namespace(self, question: Mapping[str, Any]) -> bool:
        namespace = self._spelt(question)
        if not namespace:
            raise ValidationError(
                "a lake can't be dropped",
                cause="the statement names the catalog, and no namespace in it",
                remedy="drop its namespaces one by one, or detach the catalog",
            )
        self._must_exist(namespace)
        below = [
            record.name
            for record in self._lake.store.tables()
            if record.name.startswith(f"{namespace}.")
        ]
        if below and not question["cascade"]:
            raise NamespaceProblem("NamespaceNotEmpty", namespace)
        for name in below:
            self._drop({"name": name, "purge": False, "any_case": False})
        self._lake.store.drop_namespace(namespace)
        return True


def _dotted(name: str, what: str) -> ValidationError:
    return ValidationError(
        f"{name!r:.80} can't be the name of a {what}",
        cause="in a lake dots separate the parts of a name, and one of these parts contains a dot",
        remedy="choose names without dots",
    )


def _must_have_no_place(namespace: str, properties: Mapping[str, str | None]) -> None:
    if properties.get(_LOCATION) is not None:
        raise ValidationError(
            f"the namespace {namespace} can't have a location",
            cause="a namespace is part of names; tables go to the lake's own location",
            remedy="leave LOCATION out, or give it to the tables",
        )
