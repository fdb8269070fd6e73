"""The alarms that come with Tandem, by Prometheus' own promtool: each is raised by what it is for and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.plan.monitoring import RULES

NODE = 'node="spark-2"'
#: Silent while, and for ten minutes after, a deploy has the head's lock.
DEPLOY = {'tandem_deploy_under_way{node="spark-1"}': "0x5 1x2 0x200"}
QUIET = {'tandem_deploy_under_way{node="spark-1"}': "0x500"}
UP = 'tandem_source_up{node="spark-1",source="engine",model="nemotron"}'
FAILED = f'tandem_unit_failed{{{NODE},unit="tandem-engine",model="nemotron"}}'
RESTARTS = f'tandem_unit_restarts{{{NODE},unit="tandem-engine",model="nemotron"}}'
WELL = {
    UP: "1x500",
    'up{job="tandem",node="spark-2"}': "1x500",
    FAILED: "0x500",
    RESTARTS: "0x500",
    f"tandem_memory_available_bytes{{{NODE}}}": "90e9x500",
    f"tandem_memory_floor_bytes{{{NODE}}}": "4e9x500",
    f'tandem_rail_carrier{{{NODE},device="enp1s0f0np0"}}': "1x500",
    f'tandem_rail_receive_errors_total{{{NODE},device="enp1s0f0np0"}}': "3x500",
    f'tandem_gpu_clock_hertz{{{NODE},gpu="0"}}': "2.3e9x500",
    f'tandem_gpu_busy_ratio{{{NODE},gpu="0"}}': "0.96x500",
    f'tandem_disk_free_bytes{{{NODE},path="/"}}': "500e9x500",
    f'tandem_disk_bytes{{{NODE},path="/"}}': "1e12x500",
    f"tandem_certificate_ends_timestamp_seconds{{{NODE}}}": f"{90 * 86400}x500",
    f"tandem_alone{{{NODE}}}": "0x500",
    f'tandem_rail_speed_bits{{{NODE},device="enp1s0f0np0"}}': "2e11x500",
    f'tandem_unit_proven{{{NODE},unit="tandem-engine"}}': "1x500",
    f'tandem_unit_proven{{{NODE},unit="tandem-proxy"}}': "1x500",
    f'tandem_plan_info{{{NODE},model="nemotron"}}': "1x500",
}
#: Alarm, what differs, minute at which it is there, whether a deploy keeps it silent.
CASES: list[tuple[str, dict[str, str], int, bool]] = [
    ("TandemNoEngineAnswers", {UP: "1x5 0x200"}, 9, True),
    ("TandemNodeGone", {'up{job="tandem",node="spark-2"}': "1x5 0x200"}, 9, True),
    ("TandemEngineGaveUp", {FAILED: "0x5 1x200"}, 7, False),
    ("TandemEngineRestarts", {RESTARTS: "0x5 1x2 2x200"}, 11, True),
    ("TandemMemoryNearFloor", {f"tandem_memory_available_bytes{{{NODE}}}": "90e9x5 4.5e9x200"}, 9, False),
    ("TandemRailDown", {f'tandem_rail_carrier{{{NODE},device="enp1s0f0np0"}}': "1x5 0x200"}, 9, True),
    ("TandemRailErrors", {f'tandem_rail_receive_errors_total{{{NODE},device="enp1s0f0np0"}}': "0+600x200"}, 25, False),
    ("TandemClockStuckLow", {f'tandem_gpu_clock_hertz{{{NODE},gpu="0"}}': "2.3e9x5 7e8x200"}, 17, False),
    ("TandemDiskFullInADay", {f'tandem_disk_free_bytes{{{NODE},path="/"}}': "150e9-0.2e9x400"}, 395, False),
    ("TandemCertificateEnds", {f"tandem_certificate_ends_timestamp_seconds{{{NODE}}}": f"{6 * 86400}x200"}, 5, False),
    ("TandemRailSlow", {f'tandem_rail_speed_bits{{{NODE},device="enp1s0f0np0"}}': "2e11x5 1e11x200"}, 13, False),
    ("TandemDeployFailed", {f'tandem_unit_proven{{{NODE},unit="tandem-engine"}}': "1x5 0x200"}, 8, True),
    ("TandemServesAlone", {f"tandem_alone{{{NODE}}}": "0x5 1x200"}, 7, True),
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


def raised(promtool: str, folder: Path, series: dict[str, str], minute: int) -> dict[str, str]:
    """Alarms that are there at this minute, with what they say: promtool says what is wrong with the expectation that
    there is none.
    """
    tests: list[dict[str, Any]] = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []} for name in NAMES],
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
