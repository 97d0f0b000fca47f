"""Which lines of a parsed service file are mistakes? Pure.

Decided on the syntax tree, so that ``model.eval()``, ``torch.compile()`` and a word in a text are
what they are. A name counts by what it was imported as; one that the file gives a meaning of its
own counts as that. What stands under ``if __name__ == "__main__"`` isn't run here and isn't judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_node.services.contract_slips import slips_in

_AS_CODE = "runs text as code"
_ELSEWHERE = "starts another program"
_ENDS = "ends the node and every session on it; raise an error instead"
_REFUSED_CALLS = {
    "eval": _AS_CODE,
    "exec": _AS_CODE,
    "compile": _AS_CODE,
    "__import__": "imports what nobody can foresee; write an import",
    "os.system": _ELSEWHERE,
    "os.popen": _ELSEWHERE,
    "os.fork": "copies a process that has threads, which may lock up",
}
_DOUBTFUL_CALLS = {
    "os._exit": _ENDS,
    "os.abort": _ENDS,
    "os.kill": _ENDS,
    "sys.exit": _ENDS,
    "exit": _ENDS,
    "quit": _ENDS,
    "importlib.import_module": "imports what nobody can foresee",
    "signal.signal": "works in a program's main thread only; the node has the signals",
    "pickle.load": "runs code of whoever made the file",
    "pickle.loads": "runs code of whoever made the text",
}
_BLOCKING_CALLS = {
    "time.sleep": "await asyncio.sleep()",
    "requests.get": "take a thread: await asyncio.to_thread()",
    "requests.post": "take a thread: await asyncio.to_thread()",
    "urllib.request.urlopen": "take a thread: await asyncio.to_thread()",
}
_REFUSED_IMPORTS = {
    "subprocess": _ELSEWHERE,
    "ctypes": "can crash the node",
    "socket": "opens connections of its own",
}
_DOUBTFUL_IMPORTS = dict.fromkeys(
    ("requests", "urllib", "http", "httpx", "aiohttp", "ftplib", "smtplib"),
    "reaches out of the node",
)
_WRITES = frozenset("wax+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is to be said about a file."""

    line: int
    """0: about the file as a whole."""
    text: str
    refused_by_basic: bool = False
    fatal: bool = False
    """Python can't run the file at all, whoever wants it."""

    @property
    def told(self) -> str:
        """The line and what it does."""
        return f"line {self.line} {self.text}" if self.line else self.text


def findings_in(tree: ast.Module) -> Iterator[Finding]:
    """Yield what is to be said, in no order."""
    for line, text in slips_in(tree):
        yield Finding(line=line, text=text, refused_by_basic=True)
    names = _Names(tree)
    for node, is_async in _run_nodes(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from _of_import(node)
            case ast.Call():
                yield from _of_call(node, names.meant(node.func), is_async=is_async)
            case _:
                pass


def _of_import(node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    else:
        modules = [node.module or ""] if not node.level else []
    for module in modules:
        root = module.partition(".")[0]
        text = f"imports {module}, which "
        if root in _REFUSED_IMPORTS:
            yield Finding(
                line=node.lineno, text=text + _REFUSED_IMPORTS[root], refused_by_basic=True
            )
        elif root in _DOUBTFUL_IMPORTS:
            yield Finding(line=node.lineno, text=text + _DOUBTFUL_IMPORTS[root])


def _of_call(node: ast.Call, called: str, *, is_async: bool) -> Iterator[Finding]:
    if called in _REFUSED_CALLS:
        text = f"calls {called}(), which {_REFUSED_CALLS[called]}"
        yield Finding(line=node.lineno, text=text, refused_by_basic=True)
    elif called.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
        text = f"calls {called}(), which {_ELSEWHERE}"
        yield Finding(line=node.lineno, text=text, refused_by_basic=True)
    elif called in _DOUBTFUL_CALLS:
        yield Finding(line=node.lineno, text=f"calls {called}(), which {_DOUBTFUL_CALLS[called]}")
    elif called == "torch.load" and not _has_true(node, "weights_only"):
        text = "calls torch.load() without weights_only=True, which runs code out of the file"
        yield Finding(line=node.lineno, text=text)
    elif called == "open" and _writes(node):
        yield Finding(line=node.lineno, text="opens a file for writing")
    if is_async and called in _BLOCKING_CALLS:
        text = (
            f"calls {called}() in a coroutine, which stops all sessions meanwhile; "
            f"{_BLOCKING_CALLS[called]}"
        )
        yield Finding(line=node.lineno, text=text)


class _Names:
    """What the names of a file mean."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported: dict[str, str] = {}
        own: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=aliases):
                    for alias in aliases:
                        root = alias.name.partition(".")[0]
                        self._imported[alias.asname or root] = alias.name if alias.asname else root
                case ast.ImportFrom(module=str(module), names=aliases, level=0):
                    for alias in aliases:
                        self._imported[alias.asname or alias.name] = f"{module}.{alias.name}"
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    own.add(name)
                case ast.ClassDef(name=name) | ast.arg(arg=name):
                    own.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    own.add(name)
                case _:
                    pass
        self._own = frozenset(own)

    def meant(self, called: ast.expr) -> str:
        """Return the dotted name of what is called; empty if it's something of the file's own."""
        match called:
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name].removeprefix("builtins.")
            case ast.Name(id=name):
                return "" if name in self._own else name
            case ast.Attribute(value=value, attr=attribute):
                owner = self.meant(value)
                known = isinstance(value, ast.Attribute) or (
                    isinstance(value, ast.Name) and value.id in self._imported
                )
                dotted = f"{owner}.{attribute}" if owner and known else ""
                return dotted.removeprefix("builtins.")
            case _:
                return ""


def _run_nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Yield each node that may be run here, and whether it stands in a coroutine."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, is_async = pending.pop()
        yield node, is_async
        if isinstance(node, ast.If) and _asks_for_main(node.test):
            pending += [(child, is_async) for child in node.orelse]
            continue
        if isinstance(node, ast.AsyncFunctionDef):
            is_async = True
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            is_async = False
        pending += [(child, is_async) for child in ast.iter_child_nodes(node)]


def _asks_for_main(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return True
        case _:
            return False


def _has_true(node: ast.Call, name: str) -> bool:
    return any(
        keyword.arg == name
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )


def _writes(node: ast.Call) -> bool:
    given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and bool(_WRITES & set(mode.value))
        for mode in given
    )
