"""The gate of answers at the end of a deploy, and as a verb: asked once of what is new, kept, compared, told."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from operations.node.engine import answering as asking
from operations.plan.answers import gate
from operations.plan.answers.questions import QUESTIONS
from operations.plan.answers.shapes import Seen, subject
from operations.plan.history import record
from operations.plan.plan import Plan
from operations.runner import patience, proving, rollback
from operations.wire.answers import Answered, Proven
from tests.deploy.fake import NAMES, Outcome, contents_of, deploy, look, planned
from tests.deploy.test_rollback import past
from tests.node.answering_double import Faults, answering

PLAN = planned(names=NAMES[:1], topology="solo")
RECIPE = PLAN.models[0].recipe


@cache
def seen(faults: Faults) -> Seen:
    """What the model of the plan answers to all questions."""
    found = Seen(subject(RECIPE))
    with answering(faults) as url:
        while asked := gate.next_asked(found):
            found.answers |= asking.send(url, "key", asked)
    return found


def table(faults: Faults) -> Proven:
    """As an earlier plan has it."""
    rows = gate.table(seen(faults))
    return {"model": RECIPE.served_name, "recipe": "earlier", "when": "2026-01-02 03:04", "seconds": 1.0, "rows": rows}


def served_before(plan: Plan, *tables: Proven) -> Any:
    """It has served, and has answered so."""
    told = past(plan)
    for each in tables:
        told["plans"][-1]["answers"] = {"": each}
    return told


def run(tmp_path: Path, faults: Faults, before: Any, *words: str, served: str = "") -> Outcome:
    """A deploy of the plan that has not served, whose model answers so."""
    state = {**look(PLAN, NAMES[0]), "served": served}
    programs = {
        "engine.answering": {"answers": seen(faults).answers},
        "unit.served": before,
        "unit.served:keep_answers": True,
    }
    return deploy(tmp_path, [state], "-y", "--data", "topology=solo", *words, programs=programs)


def kept(outcome: Outcome) -> list[str]:
    """The commands that keep a plan's answers."""
    return [line for line in outcome.text.splitlines() if ">>>" in line and " unit.served:keep_answers " in line]


NOTHING: Any = {"plans": [], "images": {}}
#: At another port its engine has another spec.
OTHER = planned(names=NAMES[:1], topology="solo", engine_port=8123)


def test_a_new_model_is_asked_and_what_it_answers_is_told_and_kept_with_the_plan(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(), NOTHING)
    assert outcome.code == 0, outcome.text
    total = sum(row["kind"] == "form" and row["verdict"] == gate.HOLDS for row in gate.table(seen(Faults())))
    assert total > 20 and f"{RECIPE.served_name} answers: form {total} of {total}, sense" in outcome.text
    (keeps,) = kept(outcome)
    assert '"answers"' in keeps and '"verdict": "holds"' in keeps
    assert "tandem rollback" not in outcome.text
    # Remembered before it is asked, which may take minutes; what served before is read before that.
    keep = outcome.text.index(' unit.served \'{"keep"')
    assert outcome.text.rindex(" unit.served '{}'", 0, keep) < keep < outcome.text.index(" engine.answering ")
    assert "unit.served '{}'" not in outcome.text[keep:]


def test_a_plan_that_serves_already_is_asked_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(), NOTHING, served=record(PLAN, contents_of(PLAN))["id"])
    assert outcome.code == 0, outcome.text
    assert "engine.answering" not in outcome.text and "answers:" not in outcome.text


def test_with_prove_off_nothing_is_asked(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(), NOTHING, "--data", "prove=off")
    assert outcome.code == 0, outcome.text
    assert "engine.answering" not in outcome.text and not kept(outcome)
    assert ' unit.served \'{"keep"' in outcome.text


def test_an_engine_that_has_answered_before_is_not_asked_again_and_its_table_goes_on(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(), served_before(PLAN, table(Faults())))
    assert outcome.code == 0, outcome.text
    assert "engine.answering" not in outcome.text
    (keeps,) = kept(outcome)
    assert '"recipe": "earlier"' in keeps


def test_a_model_below_what_served_before_is_said_to_be_with_the_way_back(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(tool_parser=True), served_before(OTHER, table(Faults())), "--data", "rollback=auto")
    # It serves all the same, and nothing goes back by itself.
    assert outcome.code == 0 and "going back" not in outcome.text, outcome.text
    assert "tool: a call stands in the answer's text" in outcome.text
    below = "falls below earlier, which was asked on 2026-01-02 03:04, in: "
    assert below in outcome.text and "tool" in outcome.text.split(below)[1].splitlines()[0]
    assert f"`tandem rollback --inventory {tmp_path}/nodes.py topology=solo rollback=auto` goes back to" in outcome.text


def test_a_model_that_is_not_below_is_offered_no_way_back(tmp_path: Path) -> None:
    outcome = run(tmp_path, Faults(stop=True), served_before(OTHER, table(Faults(stop=True))))
    assert "stop: the answer goes on behind the word" in outcome.text
    assert "falls below" not in outcome.text and "tandem rollback" not in outcome.text


def test_a_door_that_can_not_be_asked_ends_no_deploy(tmp_path: Path) -> None:
    state = {**look(PLAN, NAMES[0]), "served": ""}
    silent = {"engine.answering": {"problem": "no proxy runs here: `tandem apply` deploys one"}}
    outcome = deploy(tmp_path, [state], "-y", "--data", "topology=solo", programs=silent)
    assert outcome.code == 0, outcome.text
    assert "its answers could not be proven: no proxy runs here" in outcome.text
    assert "`tandem prove` asks again" in outcome.text and not kept(outcome)


#: What the door says of an engine that is gone.
GONE: Any = {each.name: {"status": 503, "text": "no engine"} for each in QUESTIONS}


def test_the_verb_ends_with_1_where_no_question_is_answered_and_keeps_nothing(tmp_path: Path) -> None:
    outcome = verb(tmp_path, GONE, served_before(PLAN))
    assert outcome.code == 1
    assert f"{RECIPE.served_name} can't be proven: no question was answered (HTTP 503: no engine)" in outcome.text
    assert not kept(outcome) and "Traceback" not in outcome.text


def test_only_answers_of_the_same_model_are_compared() -> None:
    past: Any = served_before(PLAN, table(Faults()))["plans"]
    assert rollback.answers_before(past, "", RECIPE) is not None
    another = RECIPE.model_copy(update={"model": RECIPE.model.model_copy(update={"repo": "org/another"})})
    assert rollback.answers_before(past, "", another) is None
    assert rollback.answers_before(past, "coder", RECIPE) is None


def verb(tmp_path: Path, faults: Faults | dict[str, Answered], before: Any, *words: str) -> Outcome:
    """`tandem prove` on a node where the plan serves; in the place of faults all answers may be given."""
    programs = {
        "engine.answering": {"answers": seen(faults).answers if isinstance(faults, Faults) else faults},
        "door.endpoint": {"url": "http://127.0.0.1:8000/v1", "key": "k", "model": RECIPE.served_name},
        "unit.served": before,
        "unit.served:keep_answers": True,
    }
    return deploy(tmp_path, [look(PLAN, NAMES[0])], "-y", *words, file="operations/verbs/prove.py", programs=programs)


def test_the_verb_shows_each_check_and_ends_well_where_forms_hold(tmp_path: Path) -> None:
    outcome = verb(tmp_path, Faults(forgets=True), served_before(PLAN))
    assert outcome.code == 0, outcome.text
    row = next(line for line in outcome.json.splitlines() if line.startswith("english"))
    assert "sense" in row and "fails" in row and "expected Paris, it says 'London'" in row
    assert f"{RECIPE.served_name} ({RECIPE.name})" in outcome.json
    assert 'unit.served:keep_answers \'{"plan"' in outcome.text


def test_the_verb_compares_with_what_served_before_and_ends_with_1_where_a_form_does_not_hold(tmp_path: Path) -> None:
    before = past(OTHER, PLAN)
    before["plans"][0]["answers"] = {"": table(Faults())}
    outcome = verb(tmp_path, Faults(schema=True), before)
    row = next(line for line in outcome.json.splitlines() if line.startswith("schema "))
    assert "fails" in row and "holds" in row
    assert "below earlier of 2026-01-02 03:04, in: schema" in outcome.json
    assert outcome.code == 1 and "schema: its answer is no JSON" in outcome.text.split("below earlier")[1]
    assert "Traceback" not in outcome.text


def test_programs_read_the_tables(tmp_path: Path) -> None:
    outcome = verb(tmp_path, Faults(), served_before(PLAN), "--data", "_json=1")
    told = json.loads(outcome.json.splitlines()[-1])
    assert told["before"] == {"": None} and told["models"][""]["model"] == RECIPE.served_name


@pytest.mark.parametrize(
    ("has_served", "words", "problem"),
    [
        (False, (), "no plan has served yet: `tandem apply` deploys one"),
        (True, ("--data", "_model=coder"), "no model is named `coder`: one model serves: leave the name out"),
    ],
)
def test_what_can_not_be_asked_is_one_line(
    tmp_path: Path, has_served: bool, words: tuple[str, ...], problem: str
) -> None:
    outcome = verb(tmp_path, Faults(), served_before(PLAN) if has_served else NOTHING, *words)
    assert outcome.code == 1 and problem in outcome.text
    assert "Traceback" not in outcome.text


def test_it_is_said_that_a_model_is_asked_and_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said, given = list[str](), list[float]()
    host: Any = SimpleNamespace(name="spark-1", log=said.append)

    def hand(_host: object, stdin: str, _program: object, within_s: float) -> Any:
        given.append(within_s)
        gevent.sleep(0.2)
        return {"answers": {each["name"]: seen(Faults()).answers[each["name"]] for each in json.loads(stdin)}}

    monkeypatch.setattr(patience, "EVERY_S", 0.02)
    monkeypatch.setattr(proving, "hand_or_none", hand)
    proving.prove(RECIPE, host, 60.0)
    assert said and said[0].startswith(f"asking {RECIPE.served_name}: ")
    # What one round has taken the next one has not.
    assert len(given) > 1 and given[0] <= 60.0 and all(b <= a - 0.1 for a, b in itertools.pairwise(given))


@pytest.mark.parametrize("loads", [0, 2])
def test_models_on_demand_have_the_time_of_their_loads_beside_that(monkeypatch: pytest.MonkeyPatch, loads: int) -> None:
    one = {"recipe": "lab-tiny-llama", "topology": "solo", "nodes": [NAMES[0]], "on_demand": loads > 0}
    of, given = planned(names=NAMES[:1], models={each: {**one, "served_name": each} for each in "ab"}), list[float]()

    def asked(*words: Any) -> tuple[list[str], list[str]]:
        given.append(words[-1])
        return [], []

    monkeypatch.setattr(rollback, "answers_of_same", lambda *_: None)
    monkeypatch.setattr(proving, "_asked", asked)
    run: Any = SimpleNamespace(plan=of, answers={})
    host: Any = None
    assert proving.prove_new(run, host, []) == ""
    whole = asking.ALL_S + loads * 60 * of.models[0].recipe.load_minutes
    assert len(given) == 2 and all(whole - 5 < each <= whole for each in given)
