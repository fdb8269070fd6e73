"""The overview fits on a screen, and each decision is a page of three short parts that the index and the site name."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.manual.test_sentences import ROOT, sentences

FOLDER = ROOT / "docs/decisions"
PAGES = sorted(each.name for each in FOLDER.glob("*.md") if each.name != "README.md")
#: Lines of a screen; words of a sentence, on the average of a page and of one sentence.
SCREEN, MEAN, MOST = 50, 16.0, 25
#: Beginnings that make a reader wait for the subject.
_LATE = re.compile(r"(?:Of|Whoever)\b|What\b[^.?]* (?:is|are)\b")


def test_the_overview_fits_on_a_screen() -> None:
    assert len((ROOT / "docs/design.md").read_text().splitlines()) <= SCREEN


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_says_context_decision_and_consequence(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert re.findall(r"^#+ .*$", text, re.MULTILINE)[1:] == ["## Context", "## Decision", "## Consequence"]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+\.md", name), "the decision in words"


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_is_read_once(name: str) -> None:
    found = sentences((FOLDER / name).read_text())
    assert [each for each in found if len(each.split()) > MOST or _LATE.match(each)] == []
    assert sum(len(each.split()) for each in found) / len(found) <= MEAN


def test_the_index_and_the_site_name_each_decision_in_one_order() -> None:
    index = re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text())
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(index) == PAGES
    assert re.findall(r"decisions/([a-z-]+\.md)", json.dumps(nav)) == index


def test_the_index_has_each_page_s_title() -> None:
    for title, name in re.findall(r"\[([^\]]+)\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text()):
        assert (FOLDER / name).read_text().startswith(f"# {title}\n"), name
