"""Patterns of a proof: what could take for ever is refused when a recipe is read."""

from __future__ import annotations

import pytest

from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.patterns import LONGEST, fault

REFUSED = {
    "(a+)+b": "a repetition within a repetition",
    "(?:a*)*": "a repetition within a repetition",
    "((a?b){1,9}c)+": "a repetition within a repetition",
    "(?=(x+)+)y": "a repetition within a repetition",
    "(.*,){20}P": "a repetition within a repetition",
    "(a|ab)*c": "a choice within a repetition",
    r"(\w+) \1": "refers back to a group",
    r"(x)?(?(1)y|z)": "refers back to a group",
    r"(?P<x>a)(?P=x)": "refers back to a group",
    r"(a[)]+\)?)+": "a repetition within a repetition",
    "(?:x(?:ab|cd))*": "a choice within a repetition",
    "(?:a|.)*": "a choice within a repetition",
    "(a+)(?#x)+$": "a repetition within a repetition",
    "(?:a|ab)(?#x)*c": "a choice within a repetition",
    "(?x) a": "is in the verbose form",
    "(": "is not a regular expression",
    "a{99999999999}": "is not a regular expression",
    "a" * (LONGEST + 1): f"more than {LONGEST} characters",
}


@pytest.mark.parametrize(("pattern", "said"), REFUSED.items(), ids=lambda value: str(value)[:30])
def test_what_can_take_for_ever_is_refused(pattern: str, said: str) -> None:
    assert said in fault(pattern)


FLAT = (
    *(r"Using \w+ for (?:A|B)", r"(?i)CUDA graph (pool )?memory:? *-\d", "x{2,5}y+", "(ab){3}c*", "(a|b)c", "(a|b)*c"),
    *(
        r"(?:\d|[x|y)])+",
        r"[(]a+[)]+",
        r"\(a+\)+",
        "a{}+b{,}",
        r"(?#(a+)b",
        r"\123+",
        r"(?:\x41|b)+",
        r"(?:\101|b)+",
        "(?:a|bc){1}",
        "[]+)]+x*",
    ),
)


@pytest.mark.parametrize("pattern", FLAT)
def test_what_is_flat_is_fine(pattern: str) -> None:
    assert fault(pattern) == ""


def test_what_the_shipped_recipes_look_for_is_fine() -> None:
    proofs = [load_recipe(file.stem).proof for file in FOLDER.glob("*.yaml")]
    patterns = [pattern for proof in proofs for pattern in (*proof.expect, *(each.pattern for each in proof.forbid))]
    assert patterns and not any(map(fault, patterns))
