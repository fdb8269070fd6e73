"""Owners' pages are written in sentences that are read once: short on average, and none that loses its reader."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
_DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Parts of the manual that an owner reads; the others are looked things up in.
OWNERS = ("First steps", "Tasks")
#: Words of a sentence: on the average of all these pages, of one page, and of one sentence.
MEAN, OF_A_PAGE, MOST = 15.0, 18.0, 30


def pages() -> list[str]:
    """Pages of these parts, by the manual's navigation."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    parts: list[dict[str, list[dict[str, str]]]] = yaml.safe_load(f"nav:{text}")["nav"]
    return [page for part in parts for name in OWNERS for each in part.get(name, []) for page in each.values()]


def sentences(text: str) -> list[str]:
    """Of Markdown: without code, tables, headings and targets of links. Code within a sentence is a word."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"</?div[^>]*>", "", text)
    lines = ["" if re.match(r"\s*(\||#|!!!|    [^-*\d\s])", line) else line for line in text.splitlines()]
    # An item of a list is a paragraph.
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines))
    found = []
    for block in blocks:
        plain = re.sub(r"[*_]{1,2}|^\s*(?:[-*]|\d+\.) ", "", " ".join(block.split()))
        found += [
            each.strip() for each in re.split(r"(?<=[.?!])[\")]* +(?=[A-Z\"(0-9])", plain) if re.search(r"[a-z]", each)
        ]
    return found


def _words(sentence: str) -> int:
    return len(sentence.split())


@pytest.mark.parametrize("name", pages())
def test_a_page_s_sentences_are_short(name: str) -> None:
    found = sentences((ROOT / "docs" / name).read_text())
    long = [each for each in found if _words(each) > MOST]
    assert long == [], f"{name}: {len(long)} sentences of more than {MOST} words"
    mean = sum(map(_words, found)) / len(found)
    assert mean <= OF_A_PAGE, f"{name}: {mean:.1f} words a sentence"


def test_all_of_them_are_short_on_average() -> None:
    found = [each for name in pages() for each in sentences((ROOT / "docs" / name).read_text())]
    assert len(found) > 500
    assert sum(map(_words, found)) / len(found) <= MEAN


def test_no_line_of_a_page_begins_as_a_heading_by_chance() -> None:
    """An editor that wraps `issue #22` before its sign makes a heading of it, and joins a page's own head to a line."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text()
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"^#+[^#\s].*", prose, flags=re.MULTILINE) == [], path.name
        assert not text.startswith("---") or re.match(r"---\n(?:\w+: .*\n)+---\n# ", text), path.name


#: A sentence that begins so is read twice.
_TWICE = re.compile(r"(?:^|[.:!?] |\| )(?:Of|Whoever) \S+")


def test_no_sentence_begins_with_what_it_is_a_part_of() -> None:
    found = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        blocks = re.split(r"\n\s*\n", re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE))
        found += [f"{path.name}: {each}" for block in blocks for each in _TWICE.findall(" ".join(block.split()))]
    for path in (path for room in ("operations", "bench", "files", "manual") for path in (ROOT / room).rglob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _DESCRIBED)]
        texts = [" ".join((ast.get_docstring(node) or "").split()) for node in nodes]
        found += [f"{path.relative_to(ROOT)}: {each}" for text in texts for each in _TWICE.findall(text)]
    assert found == []


def test_what_is_a_sentence() -> None:
    parts = ("# Head", "One two. Three `a b c` [four](x.md)!", "- item one: it\n  goes on\n- two", "| a. | b |")
    text = "\n\n".join((*parts, "```sh\nno. Code\n```"))
    assert sentences(text) == ["One two.", "Three CODE four!", "item one: it goes on", "two"]
