"""What the advice is worth, computed anew: the figures of docs/advise.md, and the bounds that they must not leave."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import published
from bench.advise import choose, fit, physics, proof
from bench.advise.evidence import SAME_PROMPT
from bench.advise.measured import setup_of_cell
from tests.gpu import predicted

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
    """On each model with constants that were fitted to the others, and on each number of nodes likewise."""
    misses = fit.left_out()
    assert len(misses) == len(fit.nodes_left_out()) == 156 and len({each.cell.setup.model for each in misses}) == 12
    for found in (misses, fit.nodes_left_out()):
        assert fit.typical(found)[0] == pytest.approx(choose.TYPICAL, abs=0.015)
    # What nothing here can foresee: a cluster that collapses, and Gemma's attention over 46,000 tokens.
    beyond = {each.cell.setup.called for each in misses if abs(each.error) > 0.45}
    assert beyond == {"GPT-OSS-120B", "Gemma4-26B, NVFP4"} and sum(abs(each.error) > 0.45 for each in misses) == 2


def test_what_is_computed_from_solo_alone_misses_by_what_is_said() -> None:
    found = fit.from_solo()
    cluster = [each for each in found if each.cell.column == "cluster"]
    assert fit.typical(cluster)[0] == pytest.approx(choose.COMPUTED, abs=0.015)
    assert fit.typical([each for each in found if each not in cluster])[0] < 0.04


def test_predictions_of_other_gpus_are_what_the_model_says() -> None:
    """docs/gpu/predictions.json, from solo alone, against runs that lie there: another chip, the same method."""
    gpu = PAGE.parent / "gpu"
    runs = [gpu / "runs/dense-14b-standard", gpu / "runs/moe-30b-nvfp4-standard"]
    *_, last = predicted.judge(json.loads((gpu / "predictions.json").read_text()), runs)
    assert last == "from solo, 1024 in: 72 figures, median 9%, worst 67%"


def test_predictions_that_were_made_before_missed_by_what_is_said() -> None:
    """Made of the runs at 1,024 tokens before those at 4,096 were measured; docs/gpu/README.md has these lines."""
    gpu = PAGE.parent / "gpu"
    runs = [gpu / f"runs/h200-{model}-4096" for model in predicted.SHAPES]
    before = json.loads((gpu / "predictions-h200.json").read_text())
    of_1024 = [gpu / f"runs/h200-{model}-1024" for model in predicted.SHAPES]
    assert list(predicted.make(of_1024)) == before
    *_, carried, from_solo = predicted.judge(before, runs)
    rule, most = choose.ELSEWHERE_ERRORS
    assert carried == f"carried, {choose.ELSEWHERE} in: 96 figures, median {rule:.0%}, worst {most:.0%}"
    assert carried == "carried, 4096 in: 96 figures, median 13%, worst 214%"
    assert from_solo == "from solo, 4096 in: 72 figures, median 10%, worst 180%"


def test_the_worst_that_is_told_beside_a_figure_is_the_worst_that_was_found() -> None:
    found = (*fit.left_out(), *fit.from_solo())
    long = [each for each in found if (each.cell.load.prompt or 0) > choose.LONGEST * SAME_PROMPT]
    short = [each for each in found if each not in long]
    assert abs(fit.typical(short)[1].error) == pytest.approx(choose.WORST, abs=0.01)
    assert abs(fit.typical(long)[1].error) == pytest.approx(choose.WORST_ALONE, abs=0.01)
    assert {setup_of_cell(each.cell).ranks for each in found} == {1, 2, choose.LARGEST}


def test_longer_prompts_were_measured_of_one_user_alone() -> None:
    """What an advice says of them where nobody has measured several: it is to be said anew when a table has some."""
    long = [each for each in published.cells() if (each.load.prompt or 0) > choose.LONGEST * SAME_PROMPT]
    assert [(each.load.prompt, each.users) for each in long] == [(choose.ALONE, 1)] * 3
    assert max(each.load.prompt or 0 for each in published.cells() if each.users > 1) == choose.LONGEST


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
