"""A bound on what a chat template may compute: a checkpoint is data that anyone may have made.

The sandbox keeps a template from reaching out, but lets it loop for ever or build one huge value.
Here every pass of a loop and every call looks at a deadline, and every operator that can make a
value larger than its operands is weighed first.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_LENGTH = 64 * 1024 * 1024
"""Characters of a text, items of a list: past this a prompt fits no model."""
MAX_INTEGER_BITS = 4096

_LARGE_WIDTH = re.compile(r"%[^a-zA-Z%]*(\d{6}|\*)")

_DEADLINE = "render deadline"
"""Has a space, so no template can name it."""


class TemplateTooCostly(TemplateError):
    """The template computes for too long or builds something too large."""


def with_deadline(variables: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The variables of a render that must end within `seconds` from now."""
    return {**variables, _DEADLINE: time.monotonic() + seconds}


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, with a bound on time and on the size of values."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.filters = {name: _bounded(function) for name, function in self.filters.items()}

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What every call in a template goes through; macros and loops included."""
        deadline = context.get(_DEADLINE)
        if deadline is not None and time.monotonic() > deadline:
            raise TemplateTooCostly("it takes too long to render")
        _check_arguments(args, kwargs)
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _weigh(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def join_texts(self, *parts: Any) -> str:
        """`a ~ b ~ c`."""
        texts = [str(part) for part in parts]
        _check_length(sum(map(len, texts)))
        return "".join(texts)

    def tick(self) -> None:
        """Called on every pass of a loop, for the sake of `call`."""

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        # jinja2's hook between the syntax tree and its code.
        _Bounds().visit(source)
        source.set_environment(self)
        return super()._generate(source, *args, **kwargs)


class _Bounds(NodeTransformer):
    """Puts a tick into every loop, and the weighed join in the place of `~`."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        node.body.insert(0, nodes.ExprStmt(_own_call("tick", []), lineno=node.lineno))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        return self.generic_visit(_own_call("join_texts", node.nodes))


def _own_call(method: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(method), arguments, [], None, None)


def _weigh(operator: str, left: Any, right: Any) -> None:
    """Raise TemplateTooCostly where the result would be too large."""
    if isinstance(left, int) and isinstance(right, int):
        _weigh_integers(operator, left, right)
    elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        _check_length(len(left) + len(right))
    elif operator == "*":
        many, times = (left, right) if hasattr(left, "__len__") else (right, left)
        if hasattr(many, "__len__") and isinstance(times, int):
            _check_length(len(many) * times)
    elif operator == "%" and isinstance(left, str):
        _check_format(left)


def _weigh_integers(operator: str, left: int, right: int) -> None:
    bits = left.bit_length()
    bits = bits * max(right, 0) if operator == "**" else bits + right.bit_length()
    if bits > MAX_INTEGER_BITS:
        raise TemplateTooCostly("a number is too large")


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that looks at its numbers first; jinja2 may run it while it compiles."""

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _check_arguments(args, kwargs)
        return function(*args, **kwargs)

    return bounded


def _check_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Numbers are widths to methods and filters that take any: 'a'.zfill(n), 'a' | center(n)."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, int):
            _check_length(value)
    if args and isinstance(args[0], str) and len(args) > 1:
        _check_format(args[0])


def _check_format(text: str) -> None:
    if _LARGE_WIDTH.search(text):
        raise TemplateTooCostly("a width in a format is too large")


def _check_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise TemplateTooCostly("a value is too large")
