"""The generated pages are what the code says, and nothing that it says is left out."""

from __future__ import annotations

import pytest

from manual import ROOT, knobs
from manual.markdown import escaped
from manual.pages import PAGES
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


def test_what_is_shown_is_what_was_said() -> None:
    assert escaped("a *b* [c] `<d>` <e>: <f><g>") == r"a \*b\* [c] `<d>` `<e>`: `<f><g>`"
    assert escaped("[c](d) in `<e>`<f>") == r"[c\](d) in `<e><f>`"
    assert escaped("an odd ` one") == "an odd ' one"


def test_an_example_of_a_knob_is_code() -> None:
    _, _, entry = knobs.page().partition("\n### models\n")
    assert '```python\nmodels = {\n    "chat": {' in entry.partition("\n### ")[0]
