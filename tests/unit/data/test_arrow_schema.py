from __future__ import annotations

import pyarrow as pa
import pytest

from deltasql.data.arrow_schema import from_arrow, to_arrow
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.spec.schema import ArrayType, Primitive, StructField, StructType, parse_schema

ALL = pa.schema(
    [
        pa.field("s", pa.string(), nullable=False),
        pa.field("l", pa.int64()),
        pa.field("i", pa.int32()),
        pa.field("h", pa.int16()),
        pa.field("b", pa.int8()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("t", pa.bool_()),
        pa.field("x", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("wall", pa.timestamp("us")),
        pa.field("m", pa.decimal128(12, 3)),
        pa.field("n", pa.null()),
        pa.field(
            "nested",
            pa.struct(
                [
                    pa.field("a", pa.list_(pa.field("element", pa.int32(), nullable=False))),
                    pa.field("m", pa.map_(pa.string(), pa.field("value", pa.float64()))),
                ]
            ),
        ),
    ]
)


def test_every_type_comes_back() -> None:
    assert to_arrow(from_arrow(ALL)).equals(ALL)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
        (pa.large_binary(), "binary"),
        (pa.binary(16), "binary"),
        (pa.uuid(), "binary"),
        (pa.json_(), "string"),
        (pa.uint8(), "short"),
        (pa.uint16(), "integer"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.date64(), "date"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamp"),
        (pa.decimal256(38, 2), "decimal(38,2)"),
        (pa.decimal64(9, 2), "decimal(9,2)"),
    ],
)
def test_other_arrow_types_find_theirs(kind: pa.DataType, name: str) -> None:
    assert from_arrow(pa.schema([("c", kind)])).fields[0].type == Primitive(name)


@pytest.mark.parametrize(
    "kind", [pa.large_list(pa.int8()), pa.list_(pa.int8(), 3), pa.list_view(pa.int8())]
)
def test_lists_of_every_layout(kind: pa.DataType) -> None:
    assert from_arrow(pa.schema([("c", kind)])).fields[0].type == ArrayType(Primitive("byte"))


@pytest.mark.parametrize(
    "kind",
    [
        pa.time64("us"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.list_(pa.null()),
        pa.struct([("a", pa.null())]),
    ],
)
def test_what_delta_lacks_is_refused_with_a_remedy(kind: pa.DataType) -> None:
    with pytest.raises(ValidationError) as caught:
        from_arrow(pa.schema([("c", kind)]))
    assert "'c" in caught.value.problem
    assert caught.value.remedy


@pytest.mark.parametrize(
    "name", ["", "a\0", "a b", "a,b", "a;b", "a{", "a(", "a\nb", "a\tb", "a=b"]
)
def test_names_that_parquet_readers_refuse(name: str) -> None:
    for schema in ([(name, pa.int8())], [("s", pa.struct([(name, pa.int8())]))]):
        with pytest.raises(ValidationError):
            from_arrow(pa.schema(schema))


def test_column_mapping_allows_them() -> None:
    assert from_arrow(pa.schema([("a b,c", pa.int8())]), column_mapping=True)
    with pytest.raises(ValidationError):
        from_arrow(pa.schema([("", pa.int8())]), column_mapping=True)


def test_names_are_unique_without_regard_to_case() -> None:
    with pytest.raises(ValidationError, match="two columns"):
        from_arrow(pa.schema([("a", pa.int8()), ("A", pa.int8())]))


def test_variant_is_refused() -> None:
    schema = parse_schema(
        '{"type":"struct","fields":[{"name":"v","type":"variant","nullable":true,"metadata":{}}]}'
    )
    with pytest.raises(UnsupportedFeatureError, match="variant"):
        to_arrow(schema)
    with pytest.raises(UnsupportedFeatureError):
        to_arrow(StructType((StructField("d", Primitive("decimal(50,2)")),)))
