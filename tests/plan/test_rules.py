"""The alarms that come with Tandem, by Prometheus' own promtool: each is raised by what it is for and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from manual import messages
from operations.plan.config.refusal import Refusal
from operations.plan.services import rules
from operations.plan.services.monitoring import RULES
from operations.verbs import explain

NODE = 'node="spark-2"'
#: Silent while, and for ten minutes after, a deploy has the head's lock.
DEPLOY = {'tandem_deploy_under_way{node="spark-1"}': "0x5 1x2 0x200"}
QUIET = {'tandem_deploy_under_way{node="spark-1"}': "0x500"}
UP = 'tandem_source_up{node="spark-1",source="engine",model="nemotron"}'
FAILED = f'tandem_unit_failed{{{NODE},unit="tandem-engine",model="nemotron"}}'
RESTARTS = f'tandem_unit_restarts{{{NODE},unit="tandem-engine",model="nemotron"}}'
ACTIVE = f'tandem_unit_active{{{NODE},unit="tandem-engine",model="nemotron"}}'
PLANNED = f'tandem_plan_info{{{NODE},model="nemotron",unit="tandem-engine",topology="replicas"}}'
GUARD = f'{{{NODE},unit="tandem-guard"}}'
PROXY = f'tandem_source_up{{{NODE},source="proxy"}}'
PROXY_UNIT = f'{{{NODE},unit="tandem-proxy"}}'
PROXY_DOWN = {f"tandem_unit_active{PROXY_UNIT}": "1x5 0x200"}
FREE = f'tandem_disk_free_bytes{{{NODE},path="/"}}'
SPEED = f'tandem_rail_speed_bits{{{NODE},device="enp1s0f0np0"}}'
#: The canary sets the count back after ten minutes of service.
EVERY_19_MINUTES = " ".join(["0x7 1x10"] * 25)
WELL = {
    UP: "1x500",
    'up{job="tandem",node="spark-2"}': "1x500",
    FAILED: "0x500",
    RESTARTS: "0x500",
    ACTIVE: "1x500",
    f"tandem_unit_active{GUARD}": "1x500",
    f"tandem_unit_failed{GUARD}": "0x500",
    f"tandem_unit_restarts{GUARD}": "0x500",
    PROXY: "1x500",
    f"tandem_unit_active{PROXY_UNIT}": "1x500",
    f"tandem_exporter_failed{{{NODE}}}": "0x500",
    f"tandem_memory_available_bytes{{{NODE}}}": "90e9x500",
    f"tandem_memory_floor_bytes{{{NODE}}}": "4e9x500",
    f'tandem_rail_carrier{{{NODE},device="enp1s0f0np0"}}': "1x500",
    f'tandem_rail_receive_errors_total{{{NODE},device="enp1s0f0np0"}}': "3x500",
    f'tandem_gpu_clock_hertz{{{NODE},gpu="0"}}': "2.3e9x500",
    f'tandem_gpu_busy_ratio{{{NODE},gpu="0"}}': "0.96x500",
    FREE: "500e9x500",
    f'tandem_disk_bytes{{{NODE},path="/"}}': "1e12x500",
    f"tandem_certificate_ends_timestamp_seconds{{{NODE}}}": f"{90 * 86400}x500",
    f"tandem_alone{{{NODE}}}": "0x500",
    SPEED: "2e11x500",
    f'tandem_unit_proven{{{NODE},unit="tandem-engine"}}': "1x500",
    f'tandem_unit_proven{{{NODE},unit="tandem-proxy"}}': "1x500",
    PLANNED: "1x500",
}
#: Alarm, what differs, minute at which it is there, whether a deploy keeps it silent.
CASES: list[tuple[str, dict[str, str], int, bool]] = [
    ("TandemNoEngineAnswers", {UP: "1x5 0x200"}, 9, True),
    ("TandemNodeGone", {'up{job="tandem",node="spark-2"}': "1x5 0x200"}, 9, True),
    ("TandemProxySilent", {PROXY: "1x5 0x200"}, 9, True),
    ("TandemEngineGaveUp", {FAILED: "0x5 1x200"}, 7, True),
    # A door that has given up is one alarm.
    ("TandemProxySilent", {PROXY: "1x5 0x200", f"tandem_unit_failed{PROXY_UNIT}": "0x5 1x200"} | PROXY_DOWN, 14, True),
    ("TandemUnitDown", {f"tandem_unit_active{GUARD}": "1x5 0x200", f"tandem_unit_failed{GUARD}": "0x5 1x9"}, 12, True),
    ("TandemUnitDown", {f"tandem_unit_restarts{GUARD}": "0x5 9+9x200"}, 14, True),
    ("TandemEngineMissing", {ACTIVE: "1x5 0x200"}, 40, True),
    ("TandemEngineRestarts", {RESTARTS: "0x5 1x2 2x200"}, 11, True),
    ("TandemEngineRestarts", {RESTARTS: EVERY_19_MINUTES}, 180, True),
    ("TandemMemoryNearFloor", {f"tandem_memory_available_bytes{{{NODE}}}": "90e9x5 4.5e9x200"}, 9, False),
    ("TandemRailDown", {f'tandem_rail_carrier{{{NODE},device="enp1s0f0np0"}}': "1x5 0x200"}, 9, True),
    ("TandemRailErrors", {f'tandem_rail_receive_errors_total{{{NODE},device="enp1s0f0np0"}}': "0+600x200"}, 25, False),
    ("TandemClockStuckLow", {f'tandem_gpu_clock_hertz{{{NODE},gpu="0"}}': "2.3e9x5 7e8x200"}, 17, False),
    ("TandemDiskFullInADay", {FREE: "150e9-0.2e9x400"}, 395, False),
    ("TandemCertificateEnds", {f"tandem_certificate_ends_timestamp_seconds{{{NODE}}}": f"{6 * 86400}x200"}, 5, False),
    ("TandemRailSlow", {SPEED: "2e11x5 1e11x200"}, 13, False),
    ("TandemDeployFailed", {f'tandem_unit_proven{{{NODE},unit="tandem-engine"}}': "1x5 0x200"}, 8, True),
    ("TandemServesAlone", {f"tandem_alone{{{NODE}}}": "0x5 1x200"}, 7, True),
    ("TandemDeployEndless", {f"tandem_deploy_under_way{{{NODE}}}": "0x5 1x400"}, 250, False),
    ("TandemSeesLess", {f"tandem_exporter_failed{{{NODE}}}": "0x5 1x200"}, 22, False),
    ("TandemSeesLess", {f"tandem_gpu_answers{{{NODE}}}": "1x5 0x200"}, 22, False),
]
NAMES = [
    each["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for each in group["rules"] if "alert" in each
]


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian's; where none is installed, out of its package, which is not installed: it would begin to serve."""
    if found := shutil.which("promtool"):
        return found
    folder = tmp_path_factory.mktemp("prometheus")
    folder.chmod(0o755)
    got = subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, check=False, capture_output=True)
    if got.returncode:
        pytest.skip("no promtool is here, and apt has no prometheus to take it from (`apt-get update`)")
    (package,) = folder.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(folder / "x")], check=True)
    return str(folder / "x/usr/bin/promtool")


def raised(promtool: str, folder: Path, series: dict[str, str], *minutes: int) -> dict[str, str]:
    """Alarms that are there at one of these minutes, with what they say: promtool says what is wrong with the
    expectation that there is none.
    """
    tests: list[dict[str, Any]] = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [
                {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []} for minute in minutes for name in NAMES
            ],
        }
    ]
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    parts = {part.partition(",")[0]: part for part in said.split("alertname: ")[1:]}
    found = {name: parts[name] for name in NAMES if name in parts}
    assert bool(found) == bool(done.returncode), said
    return found


def test_promtool_takes_them(promtool: str) -> None:
    subprocess.run([promtool, "check", "rules", str(RULES)], check=True, capture_output=True)


def test_each_has_a_case_and_says_which_node_and_what_to_do() -> None:
    assert {case[0] for case in CASES} == set(NAMES)
    verbs = set(re.findall(r"^([a-z-]+):.*## ", Path("Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", RULES.read_text())) <= verbs
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for each in (rule for rule in group["rules"] if "alert" in rule):
            assert each["annotations"]["next"]
            assert "$labels.node" in each["annotations"]["summary"] or each["alert"] == "TandemNoEngineAnswers"


def test_where_all_is_well_nobody_is_woken(promtool: str, tmp_path: Path) -> None:
    assert raised(promtool, tmp_path, WELL | QUIET, 400) == {}


@pytest.mark.parametrize(("name", "changes", "minute", "silent"), CASES, ids=[case[0] for case in CASES])
def test_an_alarm_is_raised_by_what_it_is_for(
    promtool: str, tmp_path: Path, name: str, changes: dict[str, str], minute: int, silent: bool
) -> None:
    found = raised(promtool, tmp_path, WELL | QUIET | changes, minute)
    assert set(found) == {name}
    assert 'model="nemotron"' in found[name], found[name]
    during = raised(promtool, tmp_path, WELL | DEPLOY | changes, minute)
    assert set(during) == (set() if silent else {name})


def lasting(series: dict[str, str], minutes: int) -> dict[str, str]:
    return {name: values.replace("x500", f"x{minutes}") for name, values in series.items()}


#: What is there, what differs, the minute, and what it has to say.
STILL: list[tuple[str, dict[str, str], int, str]] = [
    ("TandemDiskFullInADay", {FREE: "500e9x5 500e9-100e9x4 1e9x2000"}, 500, "full"),
    # A day and a half, and nobody has touched the cable.
    ("TandemRailSlow", {SPEED: "2e11x5 1e11x3000"}, 2200, "runs at 100Gbit/s, it was 200Gbit/s"),
    ("TandemEngineMissing", {ACTIVE: "1x5 0x2000"}, 500, "nemotron on spark-2"),
    ("TandemProxySilent", {PROXY: "1x5 0x2000"}, 500, "spark-2"),
    ("TandemUnitDown", {f"tandem_unit_active{GUARD}": "1x5 0x2000"}, 500, "tandem-guard on spark-2"),
    ("TandemEngineRestarts", {RESTARTS: EVERY_19_MINUTES}, 400, "again 9 times"),
]


@pytest.mark.parametrize(("name", "changes", "minute", "says"), STILL, ids=[each[0] for each in STILL])
def test_an_alarm_lasts_as_long_as_what_it_is_for(
    promtool: str, tmp_path: Path, name: str, changes: dict[str, str], minute: int, says: str
) -> None:
    found = raised(promtool, tmp_path, lasting(WELL | QUIET, 3000) | changes, minute)
    assert set(found) == {name} and says in found[name], found


#: What a night may bring that nobody has to get up for, and minutes at which nothing is raised.
NIGHTS: dict[str, tuple[dict[str, str], tuple[int, ...]]] = {
    # 75 GB within 20 minutes, with or without a deploy.
    "a model is downloaded": ({FREE: "190e9x300 190e9-3.75e9x20 115e9x2000"}, (310, 335, 350, 370, 400, 600)),
    "a deploy downloads for two hours": (
        {FREE: "195e9x300 195e9-1e9x120 75e9x2000", 'tandem_deploy_under_way{node="spark-1"}': "0x300 1x120 0x2000"},
        (380, 400, 415, 440, 460, 600),
    ),
    "a rail is slower by design": (
        {f'tandem_rail_speed_bits{{{NODE},device="enp1s0f1np1"}}': "1e11x2000"},
        (60, 1000),
    ),
    "an engine is killed once, and loads": (
        {RESTARTS: "0x5 1x40 0x2000", ACTIVE: "1x5 0x1 1x2000"},
        (8, 30, 60),
    ),
    "an engine is killed three times in a night": ({RESTARTS: "0x5 1x10 0x60 1x10 0x60 1x10 0x2000"}, (100, 155, 180)),
    "an engine waits for its turn": ({ACTIVE: "1x5 0x25 1x2000"}, (25, 33)),
    "the guard and the proxy are started anew": (
        {
            f"tandem_unit_active{GUARD}": "1x5 0x2 1x2000",
            f"tandem_unit_restarts{GUARD}": "0x5 1x2000",
            PROXY: "1x5 0x0 1x2000",
        },
        (6, 9, 12),
    ),
    "nvidia-smi is slow for some minutes": ({f"tandem_exporter_failed{{{NODE}}}": "0x5 1x8 0x2000"}, (10, 20)),
    "a deploy takes long": ({'tandem_deploy_under_way{node="spark-1"}': "0x5 1x200 0x2000"}, (100, 215)),
    # A rank that is down is the cluster's matter, which says so itself.
    "a rank waits while the other node serves alone": (
        {
            ACTIVE: "_x2000",
            f'tandem_unit_active{{{NODE},unit="tandem-engine-big",model="nemotron"}}': "0x2000",
            f'tandem_plan_info{{{NODE},model="nemotron",unit="tandem-engine-big",topology="cluster"}}': "1x2000",
        },
        (50, 100),
    ),
}


@pytest.mark.parametrize("name", NIGHTS)
def test_what_a_night_may_bring_wakes_nobody(promtool: str, tmp_path: Path, name: str) -> None:
    changes, minutes = NIGHTS[name]
    assert raised(promtool, tmp_path, lasting(WELL | QUIET, 2000) | changes, *minutes) == {}


# A cluster `nemotron` over both nodes, which answers on the first, and `coder` on the first; `vision` is the second's.
CODER_UP = 'tandem_source_up{node="spark-1",source="engine-coder",model="coder"}'
VISION_UP = f'tandem_source_up{{{NODE},source="engine-vision",model="vision"}}'
VISION = f'tandem_plan_info{{{NODE},model="vision",unit="tandem-engine-vision"}}'
SEVERAL = {name: values for name, values in WELL.items() if 'unit="tandem-engine"' not in name and name != UP} | {
    'tandem_source_up{node="spark-1",source="engine-chat",model="nemotron"}': "1x500",
    'up{job="tandem",node="spark-1"}': "1x500",
    CODER_UP: "1x500",
    VISION_UP: "1x500",
    'tandem_plan_info{node="spark-1",model="nemotron",unit="tandem-engine-chat"}': "1x500",
    'tandem_plan_info{node="spark-1",model="coder",unit="tandem-engine-coder"}': "1x500",
    VISION: "1x500",
    PLANNED: "1x500",
    'tandem_unit_failed{node="spark-1",unit="tandem-engine-chat",model="nemotron"}': "0x500",
    'tandem_unit_failed{node="spark-1",unit="tandem-engine-coder",model="coder"}': "0x500",
    'tandem_unit_restarts{node="spark-1",unit="tandem-engine-coder",model="coder"}': "0x500",
}
#: What differs, the minute, and what is raised with labels that it has to have, and words that it must not say.
OF_ONE: list[tuple[str, dict[str, str], int, dict[str, str], str]] = [
    ("one does not answer", {CODER_UP: "1x5 0x200"}, 9, {"TandemNoEngineAnswers": "coder"}, "nemotron"),
    ("one has no engine at all", {CODER_UP: "_x200"}, 9, {"TandemNoEngineAnswers": "coder"}, "nemotron"),
    (
        "one has given up",
        {'tandem_unit_failed{node="spark-1",unit="tandem-engine-coder",model="coder"}': "0x5 1x200"},
        7,
        {"TandemEngineGaveUp": "coder"},
        "nemotron",
    ),
    (
        "one is started again and again",
        {'tandem_unit_restarts{node="spark-1",unit="tandem-engine-coder",model="coder"}': "0x5 1x2 2x200"},
        11,
        {"TandemEngineRestarts": "coder"},
        "nemotron",
    ),
    ("a node of some", {f"tandem_alone{{{NODE}}}": "0x5 1x200"}, 7, {"TandemServesAlone": "nemotron, vision"}, "coder"),
    # Nobody but the node that is gone says that its model is declared.
    (
        "the node of one is gone",
        {'up{job="tandem",node="spark-2"}': "1x5 0x200", VISION: "1x5 stale", VISION_UP: "1x5 stale"},
        40,
        {"TandemNodeGone": "nemotron, vision", "TandemNoEngineAnswers": "vision"},
        "coder",
    ),
    # The deploy that took it away is long over.
    ("one is no longer declared", {VISION: "1x5 stale", VISION_UP: "1x5 stale"}, 40, {}, "vision"),
    (
        "a node is no longer declared",
        {'up{job="tandem",node="spark-2"}': "1x5 stale", VISION: "1x5 stale", VISION_UP: "1x5 stale"},
        40,
        {},
        "vision",
    ),
    # An hour after it was renamed its node is switched off: nobody looks for the old name any more.
    (
        "a node of a model that was renamed is gone",
        {
            VISION: "1x5 stale",
            VISION_UP: "1x5 stale",
            f'tandem_plan_info{{{NODE},model="sight",unit="tandem-engine-vision"}}': "_x6 1x60 stale",
            f'tandem_source_up{{{NODE},source="engine-vision",model="sight"}}': "_x6 1x60 stale",
            PLANNED: "1x66 stale",
            'up{job="tandem",node="spark-2"}': "1x66 0x200",
        },
        90,
        {"TandemNodeGone": "nemotron, sight", "TandemNoEngineAnswers": "sight"},
        "vision",
    ),
    ("one is well all the same", {}, 40, {}, "coder"),
]


@pytest.mark.parametrize(
    ("changes", "minute", "wanted", "but"), [each[1:] for each in OF_ONE], ids=[e[0] for e in OF_ONE]
)
def test_of_several_models_an_alarm_names_the_one_that_it_is_about(
    promtool: str, tmp_path: Path, changes: dict[str, str], minute: int, wanted: dict[str, str], but: str
) -> None:
    found = raised(promtool, tmp_path, SEVERAL | QUIET | changes, minute)
    assert set(found) == set(wanted)
    for name, models in wanted.items():
        assert f'model="{models}"' in found[name] and but not in found[name], found[name]


def test_where_nobody_says_what_is_declared_and_nothing_answers_that_is_told(promtool: str, tmp_path: Path) -> None:
    found = raised(promtool, tmp_path, QUIET, 9)
    assert set(found) == {"TandemNoEngineAnswers"} and "No engine answers" in found["TandemNoEngineAnswers"]


def test_a_model_on_demand_that_nobody_asks_for_wakes_nobody(promtool: str, tmp_path: Path) -> None:
    planned = PLANNED.replace('topology="replicas"', 'topology="solo",on_demand="yes"')
    rests = {UP: "0x500", ACTIVE: "0x500", planned: "1x500", PLANNED: "_x500"}
    assert raised(promtool, tmp_path, {**WELL, **rests}, 60) == {}


def test_each_is_explained_by_its_own_words_and_names_the_way_there() -> None:
    assert list(rules.alarms()) == NAMES
    page = messages.page()
    for name, alarm in rules.alarms().items():
        told = explain.lines(name)
        assert told[0] == name and told[1] == f"  seen:   {alarm.seen}" and told[-1] == f"  remedy: {alarm.remedy}"
        assert f"\n### {name}\n" in page
        assert not re.search(r"[{}$]|\s{2}", "".join(alarm)), alarm
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for each in (rule for rule in group["rules"] if "alert" in rule):
            assert each["annotations"]["explain"] == f"tandem explain {each['alert']}"
    assert explain.lines("TandemRailSlow")[1:3] == [
        "  seen:   <device> of <node> runs at <value>bit/s, it was <value>bit/s",
        "  means:  a cluster answers slower, and copies take longer",
    ]
    assert rules.alarms()["TandemNoEngineAnswers"].seen == "No engine of <model> answers"
    with pytest.raises(Refusal, match=r"no alarm is called `TandemNodeGon`\n.*did you mean `TandemNodeGone`\?"):
        explain.lines("TandemNodeGon")
