"""Which slips against the contract show in the text of a service file already? Pure.

They would be found at the first session otherwise, after minutes of loading: a method that is a
coroutine where a plain one is called, a generator of the wrong kind, a ``get_service`` that can't
be called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OFFERED = frozenset(("gpu_num", "gpu_ids"))
_PLAIN = frozenset(
    (
        "start",
        "stop",
        "create_session",
        "push_chunk",
        "close_session",
        "has_session",
        "configure_session_capacity",
        "session_capacity_profile",
        "runtime_metrics",
    )
)
_STREAMS = frozenset(("pull_chunks", "serve"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def slips_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each slip."""
    yield from _of_entry(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _is_service(node):
            yield from _of_class(node)


def _of_entry(tree: ast.Module) -> Iterator[tuple[int, str]]:
    found: _Function | None = None
    is_named = False
    for node in _at_module_level(tree):
        match node:
            case ast.FunctionDef(name="get_service") | ast.AsyncFunctionDef(name="get_service"):
                found, is_named = node, True
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                names = {alias.asname or alias.name for alias in aliases}
                is_named = is_named or bool(names & {"get_service", "*"})
            case ast.Name(id="get_service", ctx=ast.Store()):
                is_named = True
            case _:
                pass
    if not is_named:
        yield 0, "it has no function get_service()"
    if isinstance(found, ast.AsyncFunctionDef):
        yield found.lineno, "defines get_service() with async; it must be a plain function"
    if found is not None and (needed := _needed(found)):
        text = f"defines get_service() with {', '.join(needed)}, which nobody gives"
        yield found.lineno, f"{text}; only gpu_num and gpu_ids are offered"


def _at_module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what runs at import, without the bodies of functions and classes."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _needed(function: _Function) -> list[str]:
    """Return the parameters without a default that aren't offered."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    without = plain[: len(plain) - len(given.defaults)]
    without += [a for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is None]
    return [argument.arg for argument in without if argument.arg not in _OFFERED]


def _is_service(node: ast.ClassDef) -> bool:
    names = {part.name for part in node.body if isinstance(part, _Function)}
    return {"create_session", "pull_chunks"} <= names or {"serve", "start"} <= names


def _of_class(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    for part in node.body:
        if not isinstance(part, _Function):
            continue
        is_async = isinstance(part, ast.AsyncFunctionDef)
        if part.name in _PLAIN and is_async:
            yield part.lineno, f"defines {part.name}() with async, so a call would do nothing"
        elif part.name in _STREAMS and not is_async and _yields(part):
            yield part.lineno, f"defines {part.name}() without async; its chunks are awaited"
        elif part.name == "pull_chunks" and is_async and not _yields(part):
            yield (
                part.lineno,
                "defines pull_chunks() with async and without yield, so it yields nothing",
            )


def _yields(function: _Function) -> bool:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return False
