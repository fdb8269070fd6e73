"""What a deploy does to the proxies: one LiteLLM after the other, the proxy itself not at all where it need not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from operations.paths import LITELLM, PROXY, PROXY_CONFIG, PROXY_KEY
from operations.plan.decide.actions import (
    Action,
    AwaitSuccessor,
    Drain,
    PlaceFiles,
    Reload,
    Remove,
    Start,
    Stop,
    TakeUp,
)
from tests.deploy.decided import decided
from tests.deploy.fake import NAMES, Outcome, as_planned, deploy, look, planned

SOLO = ["--data", "topology=solo"]


#: What each LiteLLM has taken up.
PLAN = planned(topology="solo")
ENGINES = look(PLAN, NAMES[0])["proxy"]["engines"]


def states(**changes: Any) -> list[dict[str, Any]]:
    """Two nodes as solo has them, the head with `changes` of its look."""
    head, other = as_planned(topology="solo")
    return [head | changes, other]


def of_proxies(commands: list[tuple[str, str]]) -> list[str]:
    """What was done to units and files of the proxies, on the head; once, since a fake stays as it was for the next
    step.
    """
    found = [command for node, command in commands if node == "spark-1"]
    return list(dict.fromkeys(command for command in found if "litellm" in command or "proxy" in command))


def solo(found: list[dict[str, Any]], **more: Any) -> list[Action]:
    """What would be done about the proxies of the head, once."""
    outcome = decided(PLAN, found, **more)
    assert not outcome.refused
    return list(
        {repr(action): action for node, action in outcome.actions if node == "spark-1" and _changes(action)}.values()
    )


def _changes(action: Action) -> bool:
    return getattr(action, "unit", "") in (*LITELLM, PROXY) and not isinstance(action, TakeUp)


def stopped(actions: list[Action]) -> list[str]:
    """Units that stop, in order."""
    return [each.unit for each in actions if isinstance(each, Stop)]


def test_a_changed_litellm_is_renewed_one_after_the_other_and_the_proxy_stays() -> None:
    before = states()
    for unit in LITELLM:
        before[0]["services"]["units"][unit]["spec"] = "older"
    a, b = LITELLM
    done = [each for each in solo(before) if isinstance(each, Stop | Start | Reload)]
    assert done == [Stop(a), Start(a), Stop(b), Start(b)]


def test_a_configuration_that_was_not_loaded_is_loaded_without_a_restart() -> None:
    found = states(proxy={"loaded": "older", "engines": ENGINES, "older": [], "drained": []})
    assert solo(found) == [Reload(PROXY)]


def test_a_proxy_that_serves_is_stopped_when_a_litellm_is_there_for_its_successor(tmp_path: Path) -> None:
    before = states()
    before[0]["services"]["units"][PROXY]["spec"] = "older"
    outcome = deploy(tmp_path, before, "-y", *SOLO)
    assert outcome.code == 0, outcome.text
    asked, stopped = outcome.text.index(" door.drained '{"), outcome.text.index(f"systemctl stop {PROXY}.service")
    assert asked < stopped


def test_a_litellm_that_is_older_than_the_key_is_renewed() -> None:
    loaded = states()[0]["proxy"]["loaded"]
    done = solo(states(proxy={"loaded": loaded, "engines": ENGINES, "older": [LITELLM[1]], "drained": []}))
    assert stopped(done) == [LITELLM[1]] and {getattr(each, "unit", "") for each in done} == {LITELLM[1]}


def test_a_file_that_drifted_is_put_right_and_loaded() -> None:
    before = states()
    before[0]["files"][PROXY_CONFIG]["sha256"] = "drifted"
    before[0]["proxy"]["loaded"] = "drifted"
    placed, *done = solo(before)
    assert isinstance(placed, PlaceFiles) and placed.paths == (PROXY_CONFIG,) and done == [Reload(PROXY)]


def test_a_new_key_is_shown_by_no_command(tmp_path: Path) -> None:
    before = as_planned(topology="replicas")
    for state in before:
        state["secrets"][PROXY_KEY] = ""
    outcome = deploy(tmp_path, before, "-y", "--data", "topology=replicas")
    assert outcome.code == 0, outcome.text
    assert "sk-" not in outcome.text


def test_a_key_that_can_t_be_read_ends_the_deploy(tmp_path: Path) -> None:
    before = as_planned(topology="replicas")
    before[1]["secrets"][PROXY_KEY] = ""
    outcome = deploy(tmp_path, before, "-y", "--data", "topology=replicas")
    assert outcome.code != 0 and f"{NAMES[0]}: {PROXY_KEY} can't be read" in outcome.text
    assert "Traceback" not in outcome.text


def test_a_node_without_an_engine_is_rid_of_its_proxies() -> None:
    outcome = decided(PLAN, [look(PLAN, NAMES[0]), look(planned(topology="replicas"), NAMES[1])])
    for unit in (PROXY, *LITELLM):
        outcome.position(2, repr(Remove(unit)))


def test_one_that_does_not_take_up_its_engines_is_renewed(tmp_path: Path) -> None:
    loaded = states()[0]["proxy"]["loaded"]
    before = states(proxy={"loaded": loaded, "engines": {**ENGINES, LITELLM[0]: "older"}, "older": [], "drained": []})
    assert of_proxies(deploy(tmp_path, before, "-y", *SOLO).commands) == []
    outcome = deploy(tmp_path, before, "-y", *SOLO, programs={"door.drained": {"taken": 0, "left": 0}})
    assert outcome.code == 0 and "tandem-litellm-a has not taken up its engines; it is renewed" in outcome.text
    assert of_proxies(outcome.commands)[0] == f"systemctl stop {LITELLM[0]}.service"


def test_one_that_still_starts_is_waited_for_and_nothing_changes(tmp_path: Path) -> None:
    """Behind a boot: it does not say yet which engines it has."""
    loaded = states()[0]["proxy"]["loaded"]
    before = states(proxy={"loaded": loaded, "engines": {**ENGINES, LITELLM[1]: ""}, "older": [], "drained": []})
    outcome = deploy(tmp_path, before, "-y", "--json", *SOLO)
    totals = json.loads(outcome.json)["results"]["totals"]
    assert outcome.code == 0 and totals["no_change"] == totals["hosts"], outcome.text


def test_one_that_a_broken_off_deploy_has_drained_gets_requests_again(tmp_path: Path) -> None:
    known = {"loaded": states()[0]["proxy"]["loaded"], "engines": ENGINES, "older": []}
    outcome = deploy(tmp_path, states(proxy={**known, "drained": [LITELLM[1]]}), "-y", *SOLO)
    assert outcome.code == 0, outcome.text
    assert of_proxies(outcome.commands) == [
        "python3 /etc/tandem/litellm-b/undrain.py /run/tandem/proxy/admin.sock litellm/litellm-b"
    ]


def test_one_that_does_not_run_is_started_before_the_other_is_drained() -> None:
    a, b = LITELLM
    before = states()
    before[0]["services"]["units"][a]["spec"] = "older"
    before[0]["services"]["units"][b] = {"ActiveState": "failed", "UnitFileState": "enabled"}
    done = solo(before)
    (drained,) = (each for each in done if isinstance(each, Drain))
    assert done.index(Start(b)) < done.index(drained) < done.index(Stop(a))
    assert drained.unit == a and drained.others == (b,)


def test_a_proxy_that_waits_for_its_start_is_not_reloaded() -> None:
    """systemd refuses that; it reads the file when it starts."""
    before = states(proxy={"loaded": "older", "engines": ENGINES, "older": [], "drained": []})
    unit = before[0]["services"]["units"][PROXY]
    before[0]["services"]["units"][PROXY] = {**unit, "ActiveState": "activating", "SubState": "start-pre"}
    del before[0]["services"]["units"][PROXY]["image"]
    assert solo(before) == []


def test_a_proxy_of_an_older_plan_is_renewed_while_it_still_has_a_litellm_that_it_finds() -> None:
    """The older ones listen elsewhere, and are asked there how much they have under way."""
    a, b = LITELLM
    before = older_everywhere()
    for number, unit in enumerate(LITELLM):
        before[0]["services"]["units"][unit]["pulse"] = f"http://127.0.0.1:801{number}"
    done = solo(before)
    assert stopped(done) == [a, PROXY, b]
    drained = [each for each in done if isinstance(each, Drain)]
    assert [each.pulses[each.unit][-1] for each in drained] == ["http://127.0.0.1:8010", "http://127.0.0.1:8011"]


def older_everywhere() -> list[dict[str, Any]]:
    """A head whose proxies are all of an older plan, and run."""
    before = states()
    for unit in (*LITELLM, PROXY):
        before[0]["services"]["units"][unit]["spec"] = "older"
    return before


def stops(outcome: Outcome) -> list[str]:
    """Units of the proxies that were stopped on the head, in order."""
    found = [command.split() for command in of_proxies(outcome.commands)]
    return [words[-1].removesuffix(".service") for words in found if words[:2] == ["systemctl", "stop"]]


def test_a_proxy_of_an_older_plan_goes_on_where_no_new_litellm_comes_up(tmp_path: Path) -> None:
    a, _ = LITELLM
    outcome = deploy(tmp_path, older_everywhere(), "-y", *SOLO, programs={"door.drained": {"taken": 0, "left": 0}})
    assert outcome.refused and "Traceback" not in outcome.text
    assert (
        f"{a} took no requests for 120 s (sudo journalctl -u {a}); {PROXY} and what is behind it were" in outcome.text
    )
    # It can be drained, since the other one serves.
    assert stops(outcome) == [a]


def test_a_litellm_that_alone_serves_goes_on(tmp_path: Path) -> None:
    a, b = LITELLM
    before = states()
    before[0]["services"]["units"][a]["spec"] = "older"
    outcome = deploy(tmp_path, before, "-y", *SOLO, programs={"door.drained": {"taken": 1, "left": 0, "alone": 1}})
    assert outcome.refused and "Traceback" not in outcome.text
    assert f"{b} took no requests for 120 s (sudo journalctl -u {b}); {PROXY} and {a} were not touched" in outcome.text
    assert stops(outcome) == []


def test_one_that_runs_and_serves_nobody_is_renewed_first() -> None:
    a, b = LITELLM
    before = older_everywhere()
    before[0]["proxy"]["engines"] = {**ENGINES, b: ""}
    assert stopped(solo(before)) == [b, PROXY, a]


def test_another_litellm_that_is_as_planned_is_enough_for_a_new_proxy() -> None:
    """Which one is asked comes first, and the one that may still start last: the first need not be waited for."""
    a, b = LITELLM
    before = older_everywhere()
    before[0]["services"]["units"][b] = look(PLAN, NAMES[0])["services"]["units"][b]
    done = solo(before)
    assert stopped(done) == [a, PROXY]
    (asked,) = (each for each in done + awaited(before) if isinstance(each, AwaitSuccessor))
    assert asked.units == (b, a)


def awaited(found: list[dict[str, Any]]) -> list[Action]:
    """Successors that a HAProxy waits for before it stops, once."""
    return decided(PLAN, found).of(AwaitSuccessor)[:1]
