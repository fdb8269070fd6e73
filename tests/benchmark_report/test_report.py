"""Tables, who is ahead, what changed, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from bench.records import Run
from bench.report.__main__ import main
from bench.report.ahead import ahead, crossings
from bench.report.beside import beside
from bench.report.changed import changes
from bench.report.page import cell, page
from bench.report.series import FIGURES, Measured, Rows, measured
from bench.report.verdict import verdict
from bench.report.words import besides
from bench.report.write import markdown, table
from tests.benchmark_report.made_up import FORMULAS, USERS, made_up_run, setup

NAMES = list(FIGURES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(made_up_run(tmp_path_factory.mktemp("runs") / "made-up"))


def rows(values: dict[int, dict[str, tuple[float, ...]]], figure: str = "decode") -> Rows:
    return Rows(FIGURES[figure], "proxy", "", sorted({name for row in values.values() for name in row}), values)


def test_rows_are_the_formula_s(run: Measured) -> None:
    decode = run.of("decode")[0]
    assert decode.users == list(USERS) and decode.setups == list(FORMULAS)
    assert {len(values) for row in decode.values.values() for values in row.values()} == {3}
    # One user of solo: a token each 60 ms, within the spread that was put in.
    assert sum(decode.values[1]["solo"]) / 3 == pytest.approx(1 / 0.060, rel=0.03)
    assert run.of("ttft")[0].values[1]["solo"] == pytest.approx((716.8,) * 3)
    assert run.of("share")[0].values[1]["replicas"] == (2.0,) * 3
    assert run.of("share")[0].values[64]["replicas"] == (1.0,) * 3


def test_who_is_ahead_and_by_how_much() -> None:
    best = ahead({"a": (100.0, 101.0, 99.0), "b": (80.0, 81.0, 79.0), "c": (60.0, 61.0, 59.0)}, False)
    assert best and best.names == ("a",) and str(best) == "a (+25%)"
    less = ahead({"a": (100.0, 101.0), "b": (80.0, 80.5)}, True)
    assert less and str(less) == "b (-20%)"
    tie = ahead({"a": (100.0, 110.0), "b": (98.0, 109.0), "c": (10.0, 10.1)}, False)
    assert tie and tie.names == ("a", "b") and str(tie) == "a or b: no difference"
    assert ahead({"a": (1.0,)}, False) is None
    none = ahead({"a": (50.0, 50.0), "b": (0.0, 0.0)}, False)
    assert none and none.names == ("a",) and str(none) == "a"
    assert ahead({"a": (0.0,), "b": (0.0,)}, False) is None


def test_where_lines_cross() -> None:
    turning = rows({1: {"a": (20.0,) * 3, "b": (10.0,) * 3}, 4: {"a": (30.0,) * 3, "b": (30.0,) * 3},
                    16: {"a": (40.0,) * 3, "b": (80.0,) * 3}})  # fmt: skip
    assert list(crossings(turning)) == ["b passes a between 1 and 16 users, at about 4"]
    assert list(crossings(rows({1: {"a": (2.0,), "b": (1.0,)}, 8: {"a": (4.0,), "b": (2.0,)}}))) == []
    sooner = rows({1: {"a": (10.0,) * 3, "b": (20.0,) * 3}, 4: {"a": (80.0,) * 3, "b": (40.0,) * 3}}, "ttft")
    assert list(crossings(sooner)) == ["b passes a between 1 and 4 users, at about 2"]


def test_the_answer_is_said_first_with_a_row_for_each_number_of_users(run: Measured) -> None:
    found = verdict(run)
    assert found and found.headline == (
        "Run cluster/mp for 1 to 8, replicas from 16 users. "
        "If you can't say how many: cluster/mp, at worst 29% behind the best."
    )
    assert found.command == "tandem apply topology=cluster executor=mp"
    assert found.of.startswith("Ahead: cluster/mp for 1 to 8, replicas from 16. Judged by the whole answer")
    assert [(line.users, line.run) for line in found.lines][-1] == (64, "replicas")
    first = found.lines[0]
    assert found.gets == ("first token", "tok/s each", "whole answer") and first.gets == ("461 ms", "24", "5.8 s")
    assert (first.gain, first.sure) == ("26% sooner than replicas", "sure (3 repeats)")
    seen = page(run, NAMES, None)
    assert seen.besides[0] == "For the first token soonest: replicas for every number of users."
    assert seen.besides[2] == "A cluster is ahead for 1, 2, 4 and 8 users."
    assert seen.besides[3].startswith("All of it is measured, with prompts up to 1,024 tokens. Longer prompts may")
    assert seen.besides[3].endswith("The recipe takes 262,144 tokens with the answer.")
    assert seen.warnings == [] and seen.has_published


def test_two_repeats_are_enough_for_what_is_far_apart() -> None:
    """The spread of a run's other cells stands in for what two repeats can't say."""
    row: dict[str, tuple[float, ...]] = {"a": (100.0, 101.0), "b": (100.5, 99.8)}
    near = dict.fromkeys((1, 2, 4, 8), row)
    found = verdict(_of(rows({**near, 16: {"a": (442.0, 448.0), "b": (299.0, 280.0)}}, "decode")))
    assert found and [line.is_sure for line in found.lines] == [True] * 5
    assert found.lines[-1].run == "a" and found.lines[-1].sure == "sure (2 repeats)"
    assert found.lines[0].run == "any of them" and found.lines[0].sure == "no difference to be seen (2 repeats)"


def test_too_few_repeats_are_said_as_that_with_how_many_it_takes() -> None:
    row: dict[str, tuple[float, ...]] = {"a": (100.0, 104.0), "b": (95.0, 99.0)}
    found = verdict(_of(rows(dict.fromkeys((1, 2), row), "decode")))
    assert found and not found.lines[0].is_sure
    assert found.lines[0].sure == "too few repeats to tell: 2 more"
    again = {name: values * 4 for name, values in row.items()}
    more = verdict(_of(rows({1: again}, "decode")))
    assert more and more.lines[0].is_sure and more.lines[0].run == "a"


def test_one_repeat_is_no_tie() -> None:
    run = measured(Path(__file__).parents[2] / "docs/gpu/runs/moe-30b-nvfp4-standard")
    found = verdict(run)
    assert found
    assert {line.users for line in found.lines if line.sure.endswith("too few repeats to tell: there is one")} == {64}
    assert not [line for line in found.lines if "(1 repeat)" in line.sure and "no difference" in line.sure]
    # That solo is behind is sure; which of the others it is to be is open.
    assert found.lines[-1].gain == "20% sooner than solo" and found.lines[-1].sure.startswith("which one: ")
    assert besides(run)[2] == (
        "A cluster is ahead nowhere; for 1, 4, 8, 32 and 64 users it can't be told from the best."
    )


def test_who_is_behind_one_that_is_behind_is_no_winner() -> None:
    """Whatever its own repeats look like."""
    found = ahead({"a": (100.0, 100.1, 99.9), "b": (90.0, 90.1, 89.9), "c": (60.0, 140.0, 60.0)}, False)
    assert found and found.names == ("a",)


def test_a_packed_run_opens_and_a_spoilt_one_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "docs/gpu/runs/dense-14b-standard"
    assert main({"RUN": str(example), "OUT": str(tmp_path / "out")}) == 0
    assert "Run cluster/mp" in (tmp_path / "out/report.md").read_text()
    folder = made_up_run(tmp_path / "run", users=(1,))
    (folder / "requests.jsonl").unlink()
    (folder / "requests.jsonl.xz").write_bytes(b"no xz")
    capsys.readouterr()
    assert main({"RUN": str(folder)}) == 1
    _one_line(capsys.readouterr().err, "requests.jsonl.xz: was cut or changed: it is no whole .xz")


def test_what_makes_figures_doubtful(tmp_path: Path) -> None:
    folder = made_up_run(
        tmp_path / "bad", users=(2, 4), errors=True, why_not="out of memory", environment={}, client_pieces_s=50.0
    )
    seen = page(measured(folder), NAMES, None)
    told = "\n".join(seen.warnings)
    assert "solo did not come up: out of memory" in told and "The run was broken off" in told
    assert "cluster/mp: 6 requests failed (the first: made up: connection reset)." in told
    assert "The client was near its own limit" in told
    decode = seen.parts[0]
    assert decode.head == ("users", "ahead", "cluster/mp", "replicas", "solo")
    assert decode.rows[0][4] == "did not come up"


def test_what_ties_is_said_in_one_order_and_shortly_where_it_is_all() -> None:
    ties = {
        1: (10.0, 10.0, 10.0),
        2: (10.001, 10.0, 10.002),
        4: (5.0, 5.0, 9.0),
        8: (5.001, 5.0, 9.0),
        16: (9.0, 5.0, 6.0),
    }
    row: dict[int, dict[str, tuple[float, ...]]]
    row = {
        users: {name: (value,) * 3 for name, value in zip("abc", values, strict=True)} for users, values in ties.items()
    }

    def told(found: Rows) -> str:
        seen = verdict(_of(found))
        assert seen
        return seen.of.removeprefix("Ahead: ").split(". ")[0]

    assert told(rows(row, "whole")) == "any of them for 1 to 2, a or b for 4 to 8, b from 16"
    assert told(rows({1: row[1], 2: row[2]}, "whole")) == "any of them for every number of users"
    # What did not answer there is no tie.
    del row[1]["c"], row[2]["c"]
    assert told(rows(row, "whole")).startswith("a or b for 1 to 8")
    assert besides(_of(rows(row, "decode")))[0].startswith("For the most tokens a second: ")


def _of(found: Rows) -> Measured:
    """A run with these rows alone."""
    run = Run(profile="standard", seed=1, repeats=3, users=found.users, recipe="", served_name="", model="",
              revision="", began=0, setups=[setup(name) for name in found.setups])  # fmt: skip
    return Measured(Path(), run, [], {}, [found])


@pytest.mark.parametrize(("cached", "told"), [(0.09, []), (0.2, ["20% of a step's tokens were in the prefix cache."])])
def test_a_tenth_of_fresh_prompts_may_have_been_cached(cached: float, told: list[str], tmp_path: Path) -> None:
    seen = page(measured(made_up_run(tmp_path / "run", users=(2, 4), cached=cached)), NAMES, None)
    assert [line.split("; ")[1] for line in seen.warnings] == told


def test_the_articles_stand_beside(run: Measured) -> None:
    tables = {each.figure: each.rows for each in beside(run)}
    one = next(row for row in tables["Decode"] if (row.setup, row.users) == ("cluster/mp", 8))
    assert one.published == 82.77 and one.source == "[A]" and one.ratio == pytest.approx((one.own or 0) / 82.77)
    # Nobody has published balanced replicas, and solo at 64 users was an OOM.
    assert not [row for rows_ in tables.values() for row in rows_ if row.setup == "replicas"]
    assert not [row for rows_ in tables.values() for row in rows_ if row.setup == "solo" and row.users == 64]


def test_a_change_is_told_from_noise(tmp_path: Path) -> None:
    before = measured(made_up_run(tmp_path / "before", users=(1, 8)))
    same = measured(made_up_run(tmp_path / "same", users=(1, 8), seed=99))
    slower = measured(made_up_run(tmp_path / "slower", users=(1, 8), seed=99, slower=1.2))
    decode = {(each.setup, each.users): each for each in changes(slower, before) if each.rows.figure.name == "decode"}
    assert decode["solo", 8].is_sure and not decode["solo", 8].is_better
    assert decode["solo", 8].relative == pytest.approx(1 / 1.2 - 1, abs=0.03)
    quiet = [each for each in changes(same, before) if each.rows.figure.name == "decode"]
    assert len(quiet) == 6 and sum(each.is_sure for each in quiet) <= 1
    told = page(slower, NAMES, before).changes[0]
    assert told.head == ("figure", "setup", "1", "8", "")
    decode_row = next(row for row in told.rows if row[:2] == ("Decode, tok/s", "solo"))
    assert all(each.startswith("-1") for each in decode_row[2:4]) and decode_row[4] == "worse"
    assert not [row for row in page(same, NAMES, before).changes[0].rows if row[0].startswith("First token, median")]
    first = next(each for each in changes(slower, before) if each.rows.figure.name == "ttft")
    assert first.relative == pytest.approx(0.2) and not first.is_better


def test_above_the_answer_stands_what_was_asked_and_when(run: Measured) -> None:
    assert re.search(r"; profile \w+, .*[\d,]+ out, 20\d\d-\d\d-\d\d$", page(run, NAMES, None).title)


def test_beside_another_run_the_change_is_the_headline(tmp_path: Path) -> None:
    before = measured(made_up_run(tmp_path / "before", users=(1, 8)))
    slower = measured(made_up_run(tmp_path / "slower", users=(1, 8), seed=99, slower=1.2))
    told, alone = page(slower, NAMES, before).verdict, page(slower, NAMES, None).verdict
    assert told and alone
    what, judged = ("Tokens of answers a second against before: ", "fewer in 6 of 6 comparisons. ")
    if told.headline.startswith("Whole"):
        what, judged = ("Whole answers against before: ", "later in 6 of 6 comparisons. ")
    assert told.headline.startswith(what) and judged in told.headline and told.headline.endswith(alone.headline)
    same = page(before, NAMES, before).verdict
    assert same and "no difference beyond noise in any of 6 comparisons" in same.headline
    faster = page(before, NAMES, slower).verdict
    assert faster and ("sooner in 6 of 6" in faster.headline or "more in 6 of 6" in faster.headline)


def test_markdown_and_csv_have_the_same_figures(run: Measured) -> None:
    text = markdown(page(run, NAMES, None))
    decode = run.of("decode")[0].values[8]["solo"]
    assert f"| {cell(decode)} |" in text
    lines = list(csv.DictReader(io.StringIO(table(run, None, NAMES))))
    mine = next(line for line in lines if (line["source"], line["setup"], line["users"], line["figure"]) ==
                ("made-up", "solo", "8", "decode"))  # fmt: skip
    assert float(mine["mean"]) == pytest.approx(sum(decode) / 3, rel=1e-4) and mine["repeats"] == "3"
    assert any(line["source"].startswith("[A] ") and line["mean"] == "82.77" for line in lines)


def test_one_setup_alone_is_nothing_to_choose_between(tmp_path: Path) -> None:
    seen = page(measured(made_up_run(tmp_path / "one", names=("solo",), users=(1,))), NAMES, None)
    assert seen.verdict and seen.verdict.headline.startswith(
        "One setup was measured (solo): there is nothing to choose"
    )
    assert seen.verdict.command == 'tandem bench --topologies "solo cluster replicas"'


def test_files_and_a_chosen_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_up_run(tmp_path / "run", users=(1, 2))
    assert main({"RUN": str(folder), "FIGURES": "ttft", "OUT": str(tmp_path / "out")}) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / f"out/report.{kind}") for kind in ("html", "md", "csv")]
    text = (tmp_path / "out/report.md").read_text()
    assert "### First token, median, ms" in text and "### Between" not in text


def test_text_of_others_is_no_markup(tmp_path: Path) -> None:
    """What an engine or a file says lands in the page as words."""
    folder = made_up_run(tmp_path / "run", users=(1,), why_not="<script>alert(1)</script> | x")
    assert main({"RUN": str(folder)}) == 0
    assert "<script" not in (folder / "report/report.html").read_text()
    assert "\\| x" in (folder / "report/report.md").read_text()


def _cut(folder: Path) -> Path:
    lines = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    (folder / "requests.jsonl").write_text("".join(lines[:-2]))
    return folder


def _half_a_line(folder: Path) -> Path:
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    (folder / "steps.jsonl").write_text(lines[0][:40] + "\n" + "".join(lines[1:]))
    return folder


def _of_another_format(folder: Path) -> Path:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {"format": 99}))
    return folder


def _without_steps(folder: Path) -> Path:
    (folder / "steps.jsonl").unlink()
    return folder


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_cut, "was cut or changed"),
        (_half_a_line, "was cut or changed: line 1 is not whole"),
        (_of_another_format, "its format is 99"),
        (_without_steps, "has no measured step"),
    ],
)
def test_a_spoilt_folder_is_one_line(
    spoil: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(spoil)
    folder = spoil(made_up_run(tmp_path / "run", users=(1, 2), repeats=1))
    assert main({"RUN": str(folder)}) == 1
    _one_line(capsys.readouterr().err, said)


def test_other_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(made_up_run(tmp_path / "good", users=(1,), repeats=1))
    quick = str(made_up_run(tmp_path / "quick", users=(1,), repeats=1, profile="quick"))
    other = str(made_up_run(tmp_path / "other", users=(1,), repeats=1, recipe="gpt-oss-120b-mxfp4"))
    apart = str(made_up_run(tmp_path / "apart", users=(2,), repeats=1))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for environment, said in (
        ({"RUN": str(tmp_path / "nowhere")}, "there is no such folder"),
        ({"RUN": str(tmp_path / "empty")}, "there is no run.json in it"),
        ({"RUN": good, "FIGURES": "decod"}, "no figure is named `decod`"),
        ({"RUN": good, "RECIPE": "gpt-oss-120b-mxfp4"}, "is a run of another recipe"),
        ({"RUN": good, "AGAINST": quick}, "is a run of another profile: 'quick'"),
        ({"RUN": good, "AGAINST": other}, "is a run of another recipe: 'gpt-oss-120b-mxfp4'"),
        ({"RUN": good, "AGAINST": apart}, "has no setup and number of users that"),
        ({"RUN": good, "OUT": str(tmp_path / "file")}, "File exists"),
    ):
        is_a_word = "FIGURES" in environment or "nowhere" in environment["RUN"]
        assert main(environment) == (2 if is_a_word else 1), environment
        _one_line(capsys.readouterr().err, said)


def _one_line(text: str, said: str) -> None:
    assert said in text and "Traceback" not in text
    assert len(text.splitlines()) == 1, text
