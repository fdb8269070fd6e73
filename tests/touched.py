"""Which tests a change touches: `python -m tests.touched [BASE]` prints them, the nearest first.

A change is what differs from BASE (the last commit in common with main, unless another is named), committed or not. A
test is near to a file that it imports or names, less near to what its helpers do. Tests on the lab are left out.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Steps between a test and a file behind which a change is left to the whole run.
FURTHEST = 2


def changed(base: str = "") -> list[str]:
    """Paths in the repository that differ from a commit, those of no commit yet included."""
    since = base or _git("merge-base", "main", "HEAD")[0]
    return sorted({*_git("diff", "--name-only", since), *_git("ls-files", "--others", "--exclude-standard")})


def touched(paths: Sequence[str]) -> list[str]:
    """Test files that are no further from one of these paths than FURTHEST steps, the nearest first."""
    wanted = set(paths)
    near = {test: _distance(test, wanted) for test in _tests()}
    found = [(steps, test) for test, steps in near.items() if steps is not None]
    return [test for _, test in sorted(found)]


def _distance(test: str, wanted: set[str]) -> int | None:
    """Steps from a test to the first file of these; None: it is too far away."""
    seen, ring = {test}, {test}
    for steps in range(FURTHEST + 1):
        if ring & wanted or any(_names(each, path) for each in ring for path in wanted):
            return steps
        ring = {path for each in ring for path in _imports(each)} - seen
        seen |= ring
    return None


def _names(file: str, path: str) -> bool:
    """Whether a file names one that is not imported: what lands on nodes, a page, a page's recipe."""
    folder, _, name = path.rpartition("/")
    if not folder.startswith("files"):
        return file.startswith("tests/") and name.endswith((".md", ".yml", "file")) and f'"{path}"' in _text(file)
    place = folder.partition("/")[2]
    return f"{place}/{name}" in _text(file) or f'part("{place}", "{Path(name).stem}")' in _text(file)


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text()


@cache
def _imports(file: str) -> frozenset[str]:
    """Files of this repository that a file imports, at its top or anywhere else."""
    return frozenset(path for name in _modules(file) if (path := _path(name)))


def _modules(file: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(_text(file))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _path(module: str) -> str:
    """The file of a module; empty: it is none of ours."""
    if module.split(".")[0] not in ("operations", "bench", "manual", "tests", "config"):
        return ""
    path = f"{module.replace('.', '/')}.py"
    return path if (ROOT / path).is_file() else ""


def _tests() -> list[str]:
    files = (file.relative_to(ROOT) for file in (ROOT / "tests").rglob("test_*.py"))
    return sorted(str(each) for each in files if each.parts[1] != "e2e")


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


if __name__ == "__main__":
    print("\n".join(touched(changed(*sys.argv[1:2]))))
