"""Which rules of the house does no ready-made tool know?

Sizes (a file ends at 400 lines, a Lua script at 100, a function's body at 40), names that say
nothing, sleeping tests, key names outside the one place that builds them, and work that was put
off. Prints one line per finding; exit status 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = {".py": 400, ".ts": 400, ".tsx": 400, ".css": 400, ".sh": 400, ".lua": 100}
LONGEST_BODY = 40
SAYS_NOTHING = re.compile(r"^(utils?|helpers?|common|misc)$")
CLASS_SAYS_NOTHING = re.compile(r"(Manager|Helper|Utils?)$")
SLEEPS = {("asyncio", "sleep"), ("time", "sleep"), ("anyio", "sleep")}
PUT_OFF = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b(?! \(#\d+\))")
KEY_LITERAL = re.compile(r"""["']gr:""")
KEY_BUILDERS = {"shared/store/keys.py"}

Finding = str


def files() -> Iterator[Path]:
    """Yield what is or will be committed, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in sorted(set(listed.splitlines())):
        if (ROOT / name).is_file():
            yield Path(name)


def findings(path: Path, text: str) -> Iterator[Finding]:
    """Yield what is wrong with one file."""
    lines = text.count("\n")
    if lines > LONGEST.get(path.suffix, lines):
        yield f"{path}: {lines} lines, at most {LONGEST[path.suffix]}"
    may_not_name_keys = (
        path.suffix in {".py", ".lua"}
        and path.parts[0] != "tests"
        and str(path) not in KEY_BUILDERS
    )
    if path.suffix in {".py", ".ts", ".tsx"} and SAYS_NOTHING.match(path.stem):
        yield f"{path}: a module is named by the question that it answers"
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix in LONGEST and PUT_OFF.search(line):
            yield f"{path}:{number}: put off work needs an issue's number"
        if may_not_name_keys and KEY_LITERAL.search(line):
            yield f"{path}:{number}: keys are built in shared/store/keys.py alone"
    if path.suffix == ".py":
        try:
            yield from _in_python(path, ast.parse(text))
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: this isn't Python"


def _in_python(path: Path, tree: ast.Module) -> Iterator[Finding]:
    may_sleep = path.parts[0] != "tests" or path.parts[1] in ("support", "services")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = body_lines(node)
            if length > LONGEST_BODY:
                most = f"at most {LONGEST_BODY}"
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, {most}"
        elif isinstance(node, ast.ClassDef) and CLASS_SAYS_NOTHING.search(node.name):
            yield f"{path}:{node.lineno}: the name {node.name} doesn't say what it is"
        elif not may_sleep and isinstance(node, ast.Call) and _is_sleep(node):
            yield f"{path}:{node.lineno}: a test waits for something (wait_until), never sleeps"


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function's body has, without docstring and functions inside it."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    inner = (s for s in body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef))
    return _span(body) - sum(_span([statement]) for statement in inner)


def _span(body: list[ast.stmt]) -> int:
    if not body:
        return 0
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def _is_sleep(call: ast.Call) -> bool:
    """Tell whether a call sleeps; ``asyncio.sleep(0)`` only lets others run."""
    called = call.func
    lets_others_run = len(call.args) == 1 and ast.unparse(call.args[0]) == "0"
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and (called.value.id, called.attr) in SLEEPS
        and not lets_others_run
    )


def main() -> int:
    """Check everything; returns the exit status."""
    found = 0
    for path in files():
        if path.suffix in LONGEST:
            for finding in findings(path, (ROOT / path).read_text(encoding="utf-8")):
                print(finding)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
