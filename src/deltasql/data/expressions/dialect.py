"""Translates the SQL of Delta's users to DuckDB's: the same words, with ANSI Spark's meaning.

DuckDB's own parser reads the text. Each node is rendered anew, so that only what is known here gets
through: operators and functions for which tests have shown that both engines agree, or that are
rendered so that they do. Everything else is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from deltasql.data.expressions import coercion, types
from deltasql.data.expressions.arguments import Arguments, unsupported
from deltasql.data.expressions.engine import Engine, quoted, text
from deltasql.data.expressions.functions import FUNCTIONS, divided, joined, like
from deltasql.data.expressions.nested import element
from deltasql.data.expressions.scope import Found, Scope
from deltasql.errors import LogFormatError, ValidationError
from deltasql.log.predicates.text_literals import LITERAL, RAW, value_of
from deltasql.spec import codec

Node: TypeAlias = dict[str, Any]

_SYNTAX = re.compile(
    rf"(?P<text>\b{RAW}|{LITERAL})"
    r"|\"(?:[^\"]|\"\")*\"|`(?P<name>(?:[^`]|``)+)`|\b[xX]'(?P<bytes>[0-9a-fA-F]*)'"
    # To DuckDB's parser, ARRAY begins a subquery.
    r"|\b(?P<array>(?i:array))(?=\s*\()"
    # What DuckDB reads as a string, and Spark does not.
    r"|(?P<odd>\b(?:[eEbBnN]|[uU]&)(?=')|(?<!\w)\$)"
)
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_CONJUNCTIONS = {"CONJUNCTION_AND": " AND ", "CONJUNCTION_OR": " OR "}
# Without an ESCAPE clause, Spark's LIKE escapes with a backslash and DuckDB's does not.
_LIKES = {"~~": "LIKE", "!~~": "NOT LIKE"}
# What a SELECT may have besides its list; an expression has none of it.
_CLAUSES = (
    "where_clause",
    "group_expressions",
    "group_sets",
    "having",
    "qualify",
    "sample",
    "modifiers",
)
# Of an expression as DuckDB gets it, in which what is checked stands twice: within one another,
# that doubles with each.
_LONGEST = 4_000_000
_MOMENTS = frozenset({"current_timestamp", "now", "current_date"})


def parse(engine: Engine, given: str) -> Node:
    """The tree of an expression's text."""
    if not isinstance(given, str):
        raise ValidationError(
            f"an expression must be text, not {type(given).__name__}",
            remedy='write it as in SQL: "amount * 2", "\'a text\'"',
        )
    _must_balance(given)
    asked = f"SELECT (\n{_SYNTAX.sub(_duckdb_syntax, given)}\n)"
    (answer,) = engine.rows("SELECT json_serialize_sql(?)", [asked])[0:1]
    try:
        tree = codec.loads(answer[0])
    except LogFormatError:
        raise _malformed(given, "a number in it is too large") from None
    if tree.get("error"):
        raise _malformed(given, tree.get("error_message", ""))
    statements = tree["statements"]
    node = statements[0]["node"] if len(statements) == 1 else {}
    chosen = node.get("select_list", ())
    clauses = [name for name in _CLAUSES if node.get(name)]
    if len(chosen) != 1 or clauses or node.get("from_table", {}).get("type") != "EMPTY":
        raise _malformed(given, "there is more than one expression in it")
    found: Node = chosen[0]
    return found


def _must_balance(given: str) -> None:
    """Raise unless the text stays within the parentheses that are put around it."""
    depth, rest = 0, _SYNTAX.sub("", given)
    if "'" in rest:
        raise _malformed(given, r"a string in it has no end; a backslash in a string is \\")
    for letter in rest:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            break
    if depth:
        raise _malformed(given, "its parentheses don't match")


def _duckdb_syntax(match: re.Match[str]) -> str:
    if match["text"]:
        return text(value_of(match["text"]))
    if match["name"]:
        return quoted(match["name"].replace("``", "`"))
    if match["array"]:
        return quoted(match["array"].lower())
    if match["odd"]:
        raise _malformed(match.string, f"{match['odd']} comes before a string")
    return match[0] if match["bytes"] is None else f"unhex('{match['bytes']}')"


def _malformed(given: str, cause: str) -> ValidationError:
    return ValidationError(
        f"the expression {given!r:.200} is malformed",
        cause=cause,
        remedy="write it as in SQL: amount > 10 AND (note IS NULL OR note LIKE 'a%')",
    )


@dataclass(slots=True)
class Translator:
    """Renders trees over a scope; `used` collects the columns that they name."""

    scope: Scope
    # The instant that current_timestamp stands for: one for the whole operation.
    moment: str
    used: set[tuple[str, str]] = field(default_factory=set)

    def sql(self, node: Node) -> str:
        """A tree as DuckDB's SQL."""
        render = _RENDERERS.get(node["class"])
        if render is None:
            raise unsupported(f"{node['class'].lower()} expressions")
        found = render(self, node)
        if len(found) > _LONGEST:
            raise unsupported(
                "so large an expression", "write it shorter, with fewer functions within functions"
            )
        return found

    def type_of(self, node: Node, sql: str) -> str:
        """The type of a rendered tree; NULL has none of its own."""
        if node["class"] == "CONSTANT" and node["value"]["is_null"]:
            return types.UNTYPED
        return self.scope.type_of(sql)

    def condition(self, node: Node) -> str:
        """A tree as a condition."""
        sql = self.sql(node)
        kind = self.type_of(node, sql)
        if kind not in ("BOOLEAN", types.UNTYPED):
            raise ValidationError(
                "the condition is not a boolean",
                cause=f"it is of type {kind}",
                remedy="write a comparison",
            )
        return sql

    def value(self, node: Node, want: str) -> str:
        """A tree as a value of a column's type; nested values are fitted later, by name."""
        sql = self.sql(node)
        have = self.type_of(node, sql)
        if types.is_nested(want) and have != types.UNTYPED:
            return sql
        return types.cast(sql, have, want)

    # --- nodes --------------------------------------------------------------------------

    def _constant(self, node: Node) -> str:
        value, kind = node["value"], node["value"]["type"]["id"]
        if value["is_null"]:
            return "NULL"
        found = value["value"]
        if kind in types.INTEGERS and isinstance(found, int):
            # With its type: DuckDB would give a literal the type of the column next to it.
            return f"CAST({found} AS {kind})"
        if kind == "DECIMAL":
            info = value["type"]["type_info"]
            return f"CAST({text(_decimal(found, info['scale']))} AS {_decimal_type(info)})"
        if kind == "DOUBLE":
            return f"CAST({text(repr(found))} AS DOUBLE)"
        if kind == "VARCHAR":
            return text(found)
        if kind == "BOOLEAN":
            return str(found).lower()
        raise unsupported(f"literals of type {kind}")

    def _column(self, node: Node) -> str:
        names = node["column_names"]
        found = self.scope.find(names)
        if found is None:
            if len(names) == 1 and names[0].lower() in _MOMENTS:
                return self._moment(names[0].lower())
            raise self.scope.unknown(names)
        self._note(found)
        return found.sql

    def _note(self, found: Found) -> None:
        self.used.add((found.relation.alias, found.column))

    def _moment(self, name: str) -> str:
        instant = f"CAST({text(self.moment)} AS {types.INSTANT})"
        return f"CAST({instant} AS DATE)" if name == "current_date" else instant

    def _comparison(self, node: Node) -> str:
        return self._compared(_COMPARISONS[node["type"]], node["left"], node["right"])

    def _compared(self, operator: str, left: Node, right: Node) -> str:
        first, second = self._alike(left, right)
        return f"({first} {operator} {second})"

    def _alike(self, left: Node, right: Node) -> tuple[str, str]:
        """Both sides; a text next to another type is cast to that type, as in Spark."""
        one, other = self.sql(left), self.sql(right)
        kinds = self.type_of(left, one), self.type_of(right, other)
        coercion.must_be_comparable(kinds)
        if kinds[0] == "VARCHAR" != kinds[1]:
            return types.cast(one, "VARCHAR", coercion.beside_text(kinds[1])), other
        if kinds[1] == "VARCHAR" != kinds[0]:
            return one, types.cast(other, "VARCHAR", coercion.beside_text(kinds[0]))
        return types.widened(one, other, kinds)

    def _conjunction(self, node: Node) -> str:
        parts = [self.condition(child) for child in node["children"]]
        return "(" + _CONJUNCTIONS[node["type"]].join(parts) + ")"

    def _between(self, node: Node) -> str:
        low = self._compared(">=", node["input"], node["lower"])
        high = self._compared("<=", node["input"], node["upper"])
        return f"({low} AND {high})"

    def _operator(self, node: Node) -> str:
        kind, children = node["type"], node["children"]
        match kind:
            case "OPERATOR_NOT":
                return f"(NOT {self.condition(children[0])})"
            case "OPERATOR_IS_NULL":
                return f"({self.sql(children[0])} IS NULL)"
            case "OPERATOR_IS_NOT_NULL":
                return f"({self.sql(children[0])} IS NOT NULL)"
            case "COMPARE_IN" | "COMPARE_NOT_IN":
                found = "(" + " OR ".join(self._each_of(children)) + ")"
                return found if kind == "COMPARE_IN" else f"(NOT {found})"
            case "OPERATOR_COALESCE":
                return f"coalesce({', '.join(self._as_one(children, 'coalesce'))})"
            case "STRUCT_EXTRACT":
                return f"struct_extract({', '.join(map(self.sql, children))})"
            case "ARRAY_EXTRACT":
                return element(self._arguments(children))
        raise unsupported(f"the operator {kind.lower()}")

    def _each_of(self, children: Sequence[Node]) -> list[str]:
        """The comparisons of an IN: if some values are texts, Spark gives all of them one type."""
        given = self._arguments(children)
        if "VARCHAR" not in given.kinds or len(set(given.kinds) - {types.UNTYPED}) == 1:
            return [self._compared("=", children[0], item) for item in children[1:]]
        value, *items = coercion.alike(given.sql, given.kinds, "IN")
        return [f"({value} = {item})" for item in items]

    def _as_one(self, children: Sequence[Node], where: str) -> list[str]:
        given = self._arguments(children)
        return coercion.alike(given.sql, given.kinds, where)

    def _cast(self, node: Node) -> str:
        child, want = node["child"], _type_name(node["cast_type"])
        if node.get("try_cast"):
            raise unsupported("try_cast")
        sql = self.sql(child)
        return types.cast(sql, self.type_of(child, sql), want)

    def _case(self, node: Node) -> str:
        checks = node["case_checks"]
        values = [check["then_expr"] for check in checks]
        *chosen, otherwise = self._as_one([*values, node["else_expr"]], "CASE")
        parts = [
            f"WHEN {self.condition(check['when_expr'])} THEN {value}"
            for check, value in zip(checks, chosen, strict=True)
        ]
        return f"CASE {' '.join(parts)} ELSE {otherwise} END"

    def _null_if(self, children: Sequence[Node]) -> str:
        if len(children) != 2:
            raise ValidationError("nullif takes two values", remedy="correct the call")
        same = self._compared("=", *children)
        return f"CASE WHEN {same} THEN NULL ELSE {self.sql(children[0])} END"

    def _function(self, node: Node) -> str:
        name, children = node["function_name"].lower(), node["children"]
        if node.get("filter") or node.get("distinct") or node.get("order_bys", {}).get("orders"):
            raise unsupported(f"{name} as an aggregate")
        if name == "<=>":
            return self._compared("IS NOT DISTINCT FROM", *children)
        if name == "nullif":
            return self._null_if(children)
        if name in _MOMENTS and not children:
            return self._moment(name)
        _must_bind_alike(name, children)
        arguments = self._arguments(children)
        if name in _LIKES:
            return like(_LIKES[name], arguments)
        if name in ("+", "-", "*"):
            return _arithmetic(name, arguments)
        if name in ("/", "%", "mod"):
            return divided(name, arguments)
        if name in ("||", "concat"):
            return joined(arguments)
        render = FUNCTIONS.get(name)
        if render is None:
            raise unsupported(f"the function {name}")
        return render(arguments)

    def _arguments(self, children: Sequence[Node]) -> Arguments:
        rendered = [self.sql(child) for child in children]
        kinds = [self.type_of(child, sql) for child, sql in zip(children, rendered, strict=True)]
        names = [child.get("alias", "") for child in children]
        return Arguments(rendered, kinds, names)


_RENDERERS: dict[str, Callable[[Translator, Node], str]] = {
    "CONSTANT": Translator._constant,
    "COLUMN_REF": Translator._column,
    "COMPARISON": Translator._comparison,
    "CONJUNCTION": Translator._conjunction,
    "BETWEEN": Translator._between,
    "OPERATOR": Translator._operator,
    "CAST": Translator._cast,
    "CASE": Translator._case,
    "FUNCTION": Translator._function,
}


def _must_bind_alike(name: str, children: Sequence[Node]) -> None:
    """Raise for `a || b + c`: Spark joins first, DuckDB adds first."""
    if name != "||" or children[-1]["class"] != "FUNCTION":
        return
    right = children[-1]
    if right["function_name"] in ("+", "-") and len(right["children"]) > 1:
        raise unsupported("|| before + or -", "write concat(…) for ||")


def _arithmetic(name: str, given: Arguments) -> str:
    if len(given.sql) == 1:
        given.must_have_no_text(name)
        return f"({name} {given.sql[0]})"
    if name == "-" and given.kinds == ["DATE", "DATE"]:
        raise unsupported("a date minus a date", "use datediff(end, start)")
    one, other = given.sql
    given.must_have_no_text(name)
    if "DATE" in given.kinds and not set(given.kinds) <= {"DATE", "INTERVAL", *types.DAYS}:
        raise unsupported(f"a date {name} a {given.kinds[1].lower()}", "cast that to an int")
    one, other = types.widened(one, other, (given.kinds[0], given.kinds[1]))
    return f"({one} {name} {other})"


def _decimal(value: Any, scale: int) -> str:
    if isinstance(value, dict):
        value = (value["upper"] << 64) + value["lower"]
    digits = str(abs(value)).rjust(scale + 1, "0")
    whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if value < 0 else "") + whole + (f".{part}" if part else "")


def _decimal_type(info: Node) -> str:
    return f"DECIMAL({info['width']},{info['scale']})"


def _type_name(kind: Node) -> str:
    name, info = kind["id"], kind.get("type_info") or {}
    if name == "DECIMAL":
        # A bare DECIMAL is (10,0) in Spark and (18,3) in DuckDB, whose parser has filled that in.
        return _decimal_type(info) if info else "DECIMAL(10,0)"
    if name == "UNBOUND":
        named = str(info.get("name", "")).lower()
        if named in types.SPARK_NAMES:
            return types.SPARK_NAMES[named]
        raise unsupported(f"the type {named}")
    if name in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return types.INSTANT
    if name in types.INTEGERS | types.FLOATS | {"VARCHAR", "BOOLEAN", "DATE", "BLOB"}:
        return str(name)
    raise unsupported(f"the type {name.lower()}")
