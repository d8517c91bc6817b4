"""Tables changed without writing rows: alter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.session import Session, TableName, command
from deltasql.errors import ValidationError

if TYPE_CHECKING:
    from deltasql.lake.table import Table

app = typer.Typer(
    name="alter", help="Change columns, properties, constraints and features.", no_args_is_help=True
)


def _text(metavar: str, told: str) -> Any:
    return typer.Argument(help=told, metavar=metavar, show_default=False)


Column = Annotated[str, _text("COLUMN", "Name of the column; a.b for a field of a struct.")]
Mapping = Annotated[
    bool,
    typer.Option(
        "--enable-column-mapping",
        help="Turn column mapping on first; readers must then support it.",
    ),
]


def _alter(session: Session, table: str, change: Callable[[Table], int]) -> None:
    with session.lake() as lake:
        version = change(lake.table(table))
    session.out.done(f"{table} is at version {version}", {"table": table, "version": version})


@command(
    app,
    "add-column",
    examples=["deltasql alter add-column sales.orders price 'decimal(10,2)' --after id"],
)
def add_column(
    session: Session,
    table: TableName,
    name: Column,
    kind: Annotated[str, _text("TYPE", "Its type, e.g. long, string, decimal(10,2).")],
    comment: Annotated[
        str | None, typer.Option("--comment", help="Its comment.", metavar="TEXT")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Put it first.")] = False,
    after: Annotated[
        str | None, typer.Option("--after", help="Put it after this column.", metavar="COLUMN")
    ] = None,
) -> None:
    """Add a column; it is null in existing rows."""
    _alter(
        session,
        table,
        lambda it: it.add_column(name, kind, comment=comment, first=first, after=after),
    )


@command(
    app,
    "rename-column",
    examples=["deltasql alter rename-column sales.orders day date --enable-column-mapping"],
)
def rename_column(
    session: Session,
    table: TableName,
    name: Column,
    new_name: Annotated[str, _text("NEW_NAME", "Its new name.")],
    enable: Mapping = False,
) -> None:
    """Rename a column; needs column mapping."""
    _alter(
        session, table, lambda it: it.rename_column(name, new_name, enable_column_mapping=enable)
    )


@command(app, "drop-column", examples=["deltasql alter drop-column sales.orders day"])
def drop_column(session: Session, table: TableName, name: Column, enable: Mapping = False) -> None:
    """Drop a column; needs column mapping."""
    _alter(session, table, lambda it: it.drop_column(name, enable_column_mapping=enable))


@command(app, "reorder", examples=["deltasql alter reorder sales.orders id day"])
def reorder(
    session: Session,
    table: TableName,
    names: Annotated[list[str], _text("COLUMN...", "Columns that come first, in this order.")],
) -> None:
    """Put columns first; the others follow in their order."""
    _alter(session, table, lambda it: it.reorder_columns(names))


@command(app, "set-nullable", examples=["deltasql alter set-nullable sales.orders id"])
def set_nullable(session: Session, table: TableName, name: Column) -> None:
    """Allow nulls in a column."""
    _alter(session, table, lambda it: it.set_nullable(name))


@command(
    app,
    "comment",
    examples=["deltasql alter comment sales.orders 'what was sold'"],
)
def comment(
    session: Session,
    table: TableName,
    text: Annotated[str, _text("TEXT", "The comment; an empty one removes it.")],
    column: Annotated[
        str | None,
        typer.Option(
            "--column", help="The column to comment; the table by default.", metavar="COLUMN"
        ),
    ] = None,
) -> None:
    """Describe a table or a column."""
    _alter(session, table, lambda it: it.set_comment(text or None, column))


@command(
    app,
    "widen-type",
    examples=["deltasql alter widen-type sales.orders id long --enable-type-widening"],
)
def widen_type(
    session: Session,
    table: TableName,
    name: Column,
    kind: Annotated[str, _text("TYPE", "The wider type.")],
    enable: Annotated[
        bool,
        typer.Option(
            "--enable-type-widening", help="Turn type widening on; readers must then support it."
        ),
    ] = False,
) -> None:
    """Give a column a wider type; the files stay as they are."""
    _alter(session, table, lambda it: it.widen_type(name, kind, enable_type_widening=enable))


@command(
    app,
    "set",
    examples=["deltasql alter set sales.orders delta.appendOnly=true owner=sales"],
)
def set_properties(
    session: Session,
    table: TableName,
    properties: Annotated[list[str], _text("KEY=VALUE...", "Properties to set.")],
) -> None:
    """Set table properties."""
    wanted = {}
    for text in properties:
        key, separator, value = text.partition("=")
        if not separator:
            raise ValidationError(
                f"{text!r:.80} is not KEY=VALUE", remedy="e.g. delta.appendOnly=true"
            )
        wanted[key] = value
    _alter(session, table, lambda it: it.set_properties(wanted))


@command(app, "unset", examples=["deltasql alter unset sales.orders delta.appendOnly"])
def unset_properties(
    session: Session,
    table: TableName,
    keys: Annotated[list[str], _text("KEY...", "Properties to remove.")],
) -> None:
    """Remove table properties."""
    _alter(session, table, lambda it: it.unset_properties(keys))


Constraint = Annotated[str, _text("NAME", "Name of the constraint.")]


@command(
    app,
    "add-constraint",
    examples=["deltasql alter add-constraint sales.orders positive 'price > 0'"],
)
def add_constraint(
    session: Session,
    table: TableName,
    name: Constraint,
    expression: Annotated[str, _text("CONDITION", "Condition that every row must meet.")],
) -> None:
    """Add a CHECK constraint.

    Every existing row must satisfy it.
    """
    _alter(session, table, lambda it: it.add_constraint(name, expression))


@command(app, "drop-constraint", examples=["deltasql alter drop-constraint sales.orders positive"])
def drop_constraint(session: Session, table: TableName, name: Constraint) -> None:
    """Drop a CHECK constraint."""
    _alter(session, table, lambda it: it.drop_constraint(name))


@command(
    app,
    "enable-feature",
    examples=["deltasql alter enable-feature sales.orders deletionVectors"],
)
def enable_feature(
    session: Session,
    table: TableName,
    name: Annotated[str, _text("FEATURE", "Name of the feature; see docs/features.md.")],
) -> None:
    """Add a feature to a table's protocol."""
    _alter(session, table, lambda it: it.enable_feature(name))


@command(
    app,
    "drop-feature",
    examples=["deltasql alter drop-feature sales.orders deletionVectors"],
)
def drop_feature(
    session: Session,
    table: TableName,
    name: Annotated[str, _text("FEATURE", "Name of the feature; see docs/features.md.")],
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate-history",
            help="Expire versions that are older than a day.",
        ),
    ] = False,
) -> None:
    """Drop a feature from a table's protocol.

    This is possible once nothing in the table's history needs the feature.
    """
    _alter(session, table, lambda it: it.drop_feature(name, truncate_history=truncate))
