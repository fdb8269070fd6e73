"""Whatever a file says: a recipe or a refusal comes out, soon, and no secret with it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_file
from operations.verbs.recipes import at_most, judged
from tests.plan.hostile import NAMED, SHAPED, broken, documents

#: Seconds of the process's own computing for one file; 0.5 were the most that ten minutes of other inputs took.
SECONDS = 2.0
#: The same inputs each time. `make test-long` has more; for minutes it is `hypothesis.fuzz_one_input` of these tests.
_repeatable = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def check(file: Path, text: str) -> str:
    """Reads and judges a file of this text as `tandem recipes` does; what became of it in one word."""
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    before = time.process_time()
    try:
        with at_most(SECONDS):
            recipe = load_file(file)
            (_, _, _, verdict), said = judged(recipe)
        became = verdict.partition(",")[0]
    except Refusal as refusal:
        said, became = [str(refusal), *(f"{each.problem}; {each.remedy}" for each in refusal.findings)], "no recipe"
        assert all("\n" not in each.problem + each.remedy for each in refusal.findings)
    assert time.process_time() - before < SECONDS
    told = "\n".join(said)
    told.encode()
    # Where a change has torn a secret from what stands before it, or joined it to a word, nobody can know it.
    if not re.search(r"[A-Za-z0-9]['\"\\]*hf_Planted0|(?<!hf_)Planted0", text):
        assert SHAPED[:11] not in told
    if not re.search(r"(?<![ ']--api-key )(?<!_API_KEY=)(?<!TOKEN=)(?<!_API_KEY: )(?<!PASSWORD: )Planted1", text):
        assert NAMED[:8] not in told
    return became


@pytest.fixture(autouse=True)
def _warm() -> None:
    """What is read once is not the first file's."""
    judged(load_file(next((Path(__file__).parent / "peers").glob("*.yaml"))))


@_repeatable
@given(text=documents())
def test_any_document_of_the_formats_is_read_or_refused(tmp_path: Path, text: str) -> None:
    check(tmp_path / "x.yaml", text)


@_repeatable
@given(text=broken())
def test_any_recipe_that_was_broken_is_read_or_refused(tmp_path: Path, text: str) -> None:
    check(tmp_path / "x.yaml", text)
