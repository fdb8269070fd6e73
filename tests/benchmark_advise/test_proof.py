"""What the advice is worth, computed anew: the figures of docs/advise.md, and the bounds that they must not leave."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from bench.advise import choose, fit, physics, proof

PAGE = Path(__file__).parents[2] / "docs/advise.md"


def test_the_articles_own_winners() -> None:
    """Each that they name; the one that is not the same differs by 0.2%, which [A] calls a tie elsewhere."""
    held = proof.from_tables()
    assert len(held) == 49
    wrong = [each for each in held if not each.right]
    assert [
        (each.said.called, each.said.figure, each.said.users, each.said.winner, each.advised) for each in wrong
    ] == [("Gemma4-26B", "prefill", 4, "simple-shuffle", "tie")]


def test_the_estimate_names_no_wrong_winner() -> None:
    """Of a model that it has never seen: what it can't tell apart it does not name."""
    held = proof.from_estimate()
    assert not [each for each in held if not each.right and each.advised != "tie"]
    assert sum(each.right for each in held) >= 20


def test_the_estimate_misses_by_what_is_said() -> None:
    """On each judged model with constants that were fitted to the others."""
    misses = fit.left_out()
    assert len(misses) == 134
    typical, worst = fit.typical(misses)
    assert typical == pytest.approx(choose.TYPICAL, abs=0.015)
    assert abs(worst.error) < 0.6


def test_a_fit_ends_where_the_constants_are() -> None:
    again = asdict(fit.fit(fit.points(), physics.FITTED))
    assert again == pytest.approx(asdict(physics.FITTED), rel=0.03)


def test_a_fit_without_a_model_is_another_one() -> None:
    """Else a model's own figures would be in what it is judged by."""
    data = fit.points()
    without = fit.fit([each for each in data if each.cell.setup.model != fit.JUDGED[2]], physics.FITTED)
    assert asdict(without) != pytest.approx(asdict(physics.FITTED), rel=0.03)


def test_the_page_has_what_is_computed() -> None:
    text = PAGE.read_text()
    said = text.split("<!-- proof -->\n")[1].split("<!-- /proof -->")[0]
    assert said.strip() == "\n".join(proof.page()).strip(), "python -m bench.advise.proof makes it anew"
