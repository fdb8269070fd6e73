"""The generated pages are what the code says, and nothing that it says is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from manual import knobs, messages, modules, sites, texts
from manual.groups import GROUPS, place
from manual.pages import PAGES, ROOT
from operations.plan.config.knobs import Knobs


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_gives(name: str) -> None:
    same = (ROOT / name).read_text() == PAGES[name]()
    assert same, f"{name} is not what the code says: make manual-pages"


def test_every_knob_is_explained_with_its_default() -> None:
    page = (ROOT / "docs/knobs.md").read_text()
    for name in Knobs.model_fields:
        _, _, entry = page.partition(f"\n### {name}\n")
        first, *more = entry.strip().partition("\n### ")[0].split("\n\n")
        assert first.startswith("Default: `"), name
        assert more, name


def test_a_message_is_found_with_its_remedy_however_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.py").write_text(
        """
LIMIT = 500
def _refused(problem, remedy):
    return Refusal(Finding("here", problem, remedy))
def one(name):
    raise _refused(f"{name} has more than {LIMIT:,} words", "make it " + ("short" if name else "shorter"))
def two(node):
    if node.a:
        why, remedy = "is not on", "switch it on"
    else:
        why, remedy = f"refuses {node.login}", "let it in"
    return Absence(node.name, why, remedy)
def three():
    yield fail("it is gone; run the deploy again")
def four() -> str:
    '''Why it can't be; empty: it can.'''
    return "it can't be now"
def five():
    return {"problem": "there is none", "rest": "no message at all"}
def six(data):
    logger.warning(f"{data} is old")
    raise RuntimeError(f"{data}: {data}")
"""
    )
    monkeypatch.setattr(modules, "ROOT", tmp_path)
    found = [(each.text, each.remedy) for each in sites.messages("all.py")]
    assert found == [
        ("<name> has more than 500 words", "make it (short | shorter)"),
        ("is not on", "switch it on"),
        ("refuses <login>", "let it in"),
        ("it is gone; run the deploy again", ""),
        ("it can't be now", ""),
        ("there is none", ""),
        ("<data> is old", ""),
    ]
    assert [each.text for each in sites.messages("all.py") if each.is_remark] == ["<data> is old"]


def test_a_name_says_what_it_was_given_where_it_is_used() -> None:
    tree = ast.parse(
        """
def say(it):
    text = "as ever"
    if it:
        text = "only then"
        tell(text)
    text = "at the end"
    tell(text)
"""
    )
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    scope = texts.Scope(modules.Module("here", tree), function)
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    said = {call.lineno: scope.text(call.args[0]) for call in calls}
    assert said == {6: "only then", 8: "at the end"}


def test_what_is_shown_is_what_was_said() -> None:
    assert texts.escaped("a *b* [c] `<d>` <e>: <f><g>") == r"a \*b\* [c] `<d>` `<e>`: `<f><g>`"
    assert texts.escaped("[c](d) in `<e>`<f>") == r"[c\](d) in `<e><f>`"
    assert texts.escaped("an odd ` one") == "an odd ' one"


def test_every_file_with_messages_has_its_heading_and_every_heading_its_messages() -> None:
    with pytest.raises(LookupError, match=r"add it to manual/groups\.py"):
        place("operations/new.py")
    page = (ROOT / "docs/messages.md").read_text()
    for group in GROUPS:
        for heading, begins in group.parts.items():
            _, _, under = page.partition(f"\n### {heading}\n")
            assert under.startswith("\n- "), f"{heading} has no message"
            assert [each for each in begins if not (modules.ROOT / each).exists()] == []


@pytest.mark.parametrize(
    "words",
    [
        "has no python3<br>→ apt install python3",
        "no knob is named `<key>`<br>→ `<gone>` | did you mean `<word>`?",
        "does not answer (connection refused)<br>→ it is on, without an ssh server",
        "the fabric does not carry MTU `<fabric mtu>`",
        "arrived with another content than the head's; run the deploy again",
        "is gated: accept its terms on the Hub",
        "its unit is `<activestate>`",
        "no engine answers at the moment; it starts by itself",
        "does not serve: `<why>`. From its log",
        "Remark: the image `<image>` is not pinned by a digest",
        "MemAvailable is `<available>` MiB",
        "the name is empty<br>→ say whose key it is: `tandem key alice`",
        "It means: nothing goes over it<br>→ plug the cable in at both ends",
    ],
)
def test_messages_of_each_phase_are_there(words: str) -> None:
    assert words in (ROOT / "docs/messages.md").read_text()


def test_no_name_of_the_code_s_own_stands_for_what_a_run_knows() -> None:
    page = messages.page()
    leaked = re.findall(r"<(?:getattr|each|self|str|argv|absence|isinstance)>", page)
    assert leaked == []


def test_what_is_read_by_name_is_called_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "read.py").write_text(
        """
def one(error, it, name):
    yield fail(f"no answer: {getattr(error, 'reason', error)}")
    yield fail(f"{name} is {getattr(it, name)} here")
"""
    )
    monkeypatch.setattr(modules, "ROOT", tmp_path)
    assert [each.text for each in sites.messages("read.py")] == ["no answer: <reason>", "<name> is <value> here"]


def test_a_list_begins_with_a_message_that_can_be_searched_for() -> None:
    assert "### Reaching the nodes\n\n- `<word>` is no knob=value" in messages.page()


def test_an_example_of_a_knob_is_code() -> None:
    _, _, entry = knobs.page().partition("\n### models\n")
    assert '```python\nmodels = {\n    "chat": {' in entry.partition("\n### ")[0]
