"""Files that a node shall have, and rendering them from the templates in files/."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FILES = Path(__file__).parents[3] / "files"
NODE = Path(__file__).parents[2] / "node"

#: Where what lands on nodes is looked for.
SHIPPED = FileSystemLoader(FILES)

_templates = Environment(loader=SHIPPED, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
_templates.filters["shell"] = shlex.quote


def inside_quotes(text: str) -> str:
    """Within double quotes, where variables and nothing else are filled in."""
    return re.sub(r'(["`\\]|\$\()', r"\\\1", text)


def _command(words: Iterable[str], filled_in: Collection[str] = ()) -> str:
    """A command line; of the words in `filled_in` the shell replaces the variables."""
    return " ".join(f'"{inside_quotes(word)}"' if word in filled_in else shlex.quote(word) for word in words)


_templates.filters["command"] = _command
_templates.filters["inside_quotes"] = inside_quotes


@dataclass(frozen=True)
class File:
    """A file on a node, owned by root."""

    path: str
    content: str
    mode: str = "644"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()


def render(template: str, **values: Any) -> str:
    """A template of files/ (`guard/tandem-guard.service.j2`), rendered with these values.

    Raises TemplateNotFound where there is none, UndefinedError for a value that it names and is not given (Jinja's).
    """
    return _templates.get_template(template).render(**values)


def as_is(name: str) -> str:
    """A file of files/ that is shipped without rendering. Its last line ends: what goes to a node through pyinfra's
    standard input does, and would differ from its plan at each deploy. Raises TemplateNotFound where there is none.
    """
    text, *_ = SHIPPED.get_source(_templates, name)
    return text if text.endswith("\n") or not text else f"{text}\n"


def node_program(name: str) -> str:
    """A program of operations/node (`machine/on_gpu.py`) that lands on nodes too: it imports nothing of Tandem's."""
    return (NODE / name).read_text()


def digest(files: Iterable[File], *more: str) -> str:
    """16 hex digits over the files and whatever else the running thing depends on."""
    hasher = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.path):
        hasher.update(f"{file.path}\0{file.mode}\0{file.content}\0".encode())
    for text in more:
        hasher.update(f"{text}\0".encode())
    return hasher.hexdigest()[:16]
