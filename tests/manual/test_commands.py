"""Each `tandem ...` of the manual and the README is one that the command understands: verb, options and words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from operations.command import app as _all_verbs  # noqa: F401 (the verbs are made)
from operations.command.groups import app
from tests.plan.samples import ROOT

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
#: What stands for something else, and options that every command has.
_PLACEHOLDER, _EVERYWHERE = re.compile(r"VERB|\.\.\.|[<[]"), ("--help", "-h", "--version", "--install-completion")


def commands(text: str) -> Iterator[list[str]]:
    """The words behind `tandem` in code: lines of blocks, and code within a sentence."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))
    for code in [*lines, *spans]:
        for found in re.findall(
            r"(?:^|&& |\$\(|; )(?:\./)?(tandem (?:[a-z-]).*?)(?= && |;|\)\"|$| \| | > |  +#)", code
        ):
            if not _PLACEHOLDER.search(found):
                yield shlex.split(found, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_to_type_is_understood(page: Path) -> None:
    verbs = get_command(app).commands  # type: ignore[attr-defined]
    for verb, *words in commands(page.read_text()):
        if verb in _EVERYWHERE:
            continue
        assert verb in verbs, f"tandem {verb}"
        given = [word for word in words if word not in _EVERYWHERE]
        # A verb alone may be spoken of without what it wants.
        if given:
            verbs[verb].make_context(verb, given)


def test_the_manual_has_many_of_them() -> None:
    found = [words for page in PAGES for words in commands(page.read_text())]
    assert len(found) > 300 and ["apply", "topology=replicas"] in found and ["logs", "-f"] in found


def test_what_the_command_does_not_know_is_seen() -> None:
    verbs = get_command(app).commands  # type: ignore[attr-defined]
    [words] = commands("```sh\ncd ~/x && tandem bench --fro 30m    # why\n```\n")
    with pytest.raises(Exception, match="No such option"):
        verbs[words[0]].make_context(words[0], words[1:])
