"""Flags out of config dataclasses: a field with its type, default and doc line is a flag."""

from __future__ import annotations

import argparse
import dataclasses
import math
import types
import typing
from argparse import ArgumentParser, Namespace
from typing import Any, Literal, TypeVar

Config = TypeVar("Config")


def add_options(parser: ArgumentParser, config: type, *, skip: tuple[str, ...] = ()) -> None:
    """Add one flag for each field of the dataclass `config`, besides those in `skip`.

    A list is a flag given several times: one flag with many values would swallow what follows it.
    """
    group = parser.add_argument_group(f"{config.__name__.removesuffix('Config').lower()} options")
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        if field.name in skip:
            continue
        doc = field.metadata["doc"]
        if field.default not in (None, (), ""):
            doc += f" (default: {field.default})"
        flag = "--" + field.name.replace("_", "-")
        default = None if field.default == () else field.default  # argparse appends to a list
        group.add_argument(flag, default=default, help=doc, **_reader(hints[field.name]))


def read_options(config: type[Config], args: Namespace, **given: Any) -> Config:
    """Build `config` from parsed flags; `given` are fields that are no flags of this command."""
    flags = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        if field.name in given:
            continue
        value = getattr(args, field.name)
        if value is None:
            value = field.default
        flags[field.name] = tuple(value) if isinstance(value, list) else value
    return config(**flags, **given)


def doc_of(config: type, name: str) -> str:
    """The doc line of one field."""
    return next(str(f.metadata["doc"]) for f in dataclasses.fields(config) if f.name == name)


def _reader(hint: Any) -> dict[str, Any]:
    """How argparse reads a value of this type."""
    if isinstance(hint, types.UnionType):  # "int | None": None is the default, never typed in
        hint = next(arm for arm in typing.get_args(hint) if arm is not type(None))
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is Literal:
        return {"choices": typing.get_args(hint)}
    if typing.get_origin(hint) is tuple:
        return {"action": "append", "metavar": "TEXT"}
    kind = _finite if hint is float else hint
    return {"type": kind, "metavar": {int: "N", float: "X", str: "TEXT"}[hint]}


def _finite(text: str) -> float:
    """Options go to the engine process as JSON, which has no NaN: it would arrive as not given."""
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number")
    return value
