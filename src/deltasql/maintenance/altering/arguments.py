"""Arguments of the wrong type, told by the name of the parameter."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.errors import ValidationError


def must_be_text(**given: object) -> None:
    """Raise `ValidationError` unless all of these are texts."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise ValidationError(f"{name} is {value!r:.80}", remedy="give a text")


def must_be_texts(**given: object) -> None:
    """Raise `ValidationError` unless all of these are texts, several of them; one is no list."""
    for name, value in given.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValidationError(f"{name} is {value!r:.80}", remedy="give a list of texts")
