"""docs/knobs.md and group_data/all.py: each knob with its default, what it takes, and its text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from manual.markdown import escaped
from operations.plan.config.knob_fields import SECTIONS, SET, TOGETHER, KnobFields

HEAD = """# Knobs

Made of `operations/plan/config/knob_fields.py` by `make manual-pages`.

Set them in `group_data/all.py`, or give them for one run: `tandem apply topology=solo`. What you do not set has
its default. A name that is no knob, and a value that a knob does not take, are refused before the first change. So are
some that don't go together: [below](#refused-together).
"""
FILE_HEAD = '''"""The knobs: what is wanted. A line without `#` is set, all others show their defaults.

Set one by removing its `#`, or for one run: `pyinfra inventory.py deploy.py --data topology=solo`.
Made of operations/plan/config/knob_fields.py by `make manual-pages`.
"""

# Everything that Tandem does on a node needs root; the login needs sudo without a password.
_sudo = True
'''
TYPES = {
    str: "a text",
    dict[str, str]: "a dictionary of texts",
    dict[str, dict[str, Any]]: "a dictionary of dictionaries",
    tuple[dict[str, Any], ...]: "a list of dictionaries",
    tuple[str, ...]: "a list of texts; for one run words with a comma between them",
}
#: How wide a line of group_data/all.py is.
COLUMNS = 118


def page() -> str:
    """docs/knobs.md as a whole."""
    lines = [HEAD]
    for name in KnobFields.model_fields:
        lines += [f"## {SECTIONS[name]}\n"] if name in SECTIONS else []
        lines += [f"### {name}\n", f"Default: `{_as_python(name)}`. Takes {takes(name)}.\n", _as_markdown(name)]
    lines += ["## Refused together\n", *(f"- {text}" for text in TOGETHER), ""]
    return "\n".join(lines).rstrip() + "\n"


def group_data() -> str:
    """group_data/all.py as it is shipped: what an owner edits first is set, all else is a comment."""
    lines = [FILE_HEAD]
    for name in KnobFields.model_fields:
        if name in SECTIONS:
            lines.append(f"# --- {SECTIONS[name]} {'-' * (COLUMNS - len(SECTIONS[name]) - 7)}\n")
        comment = textwrap.indent(_text(name), "# ", lambda _: True).replace("# \n", "#\n")
        lines += [f"{comment}\n{'' if name in SET else '# '}{name} = {_as_python(name)}\n"]
    return "\n".join(lines).rstrip() + "\n"


def takes(name: str) -> str:
    """What a knob's type lets pass, in words."""
    field = KnobFields.model_fields[name]
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    bounds = {key: getattr(each, key) for each in field.metadata for key in ("ge", "gt", "le") if hasattr(each, key)}
    if annotation in (int, float):
        words = "a whole number" if annotation is int else "a number"
        words += f", {bounds['ge']:g} or more" if "ge" in bounds else ""
        words += f", more than {bounds['gt']:g}" if "gt" in bounds else ""
        return words + (f", {bounds['le']:g} at most" if "le" in bounds else "")
    return TYPES[annotation]


def _text(name: str) -> str:
    """A knob's text. Raises LookupError where it has none."""
    text = KnobFields.model_fields[name].description
    if not text:
        raise LookupError(f"the knob {name} has no text below it in operations/plan/config/knob_fields.py")
    first, *rest = text.splitlines()
    # Where choices are all that follows, pydantic has taken their indentation for the docstring's.
    indent = "  " if rest and re.match(r"\S+ {2,}\S", rest[0]) else ""
    return "\n".join([first, *(f"{indent}{line}" for line in rest)])


def _as_python(name: str) -> str:
    """A knob's default as an owner writes it."""
    value = KnobFields.model_fields[name].get_default(call_default_factory=True)
    value = list(value) if isinstance(value, tuple) else value
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _as_markdown(name: str) -> str:
    """A knob's text: choices as a list, an example as code."""
    return "\n".join(_blocks(_text(name).splitlines())) + "\n"


def _blocks(lines: list[str]) -> Iterator[str]:
    was_choice = False
    for place, line in enumerate(lines):
        if not line and place + 1 < len(lines) and lines[place + 1].startswith("    "):
            yield "\n```python"
            yield textwrap.dedent("\n".join(lines[place + 1 :]))
            yield "```"
            return
        if choice := re.fullmatch(r" {2}(\S+) {2,}(\S.*)", line):
            yield from [] if was_choice else [""]
            yield f"- `{choice[1]}`: {_linked(choice[2])}"
            was_choice = True
        elif was_choice and line.startswith("    "):
            yield f"  {_linked(line.strip())}"
        else:
            yield from [""] if was_choice else []
            yield _linked(line)
            was_choice = False


def _linked(text: str) -> str:
    return re.sub(r"docs/([a-z-]+)\.md", r"[\1](\1.md)", escaped(text))
