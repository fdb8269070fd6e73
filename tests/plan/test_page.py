"""What a deploy gives the page: unit, route at the door, panels, and nothing of it where nobody wants it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from operations.node.monitoring import handed
from operations.paths import EXPORTER, PAGE, PROXY, PROXY_CONFIG
from operations.plan.config.files import FILES
from operations.plan.config.refusal import Refusal
from operations.plan.engines import ENGINES
from operations.plan.plan import Plan
from operations.plan.services.page import STATIC
from operations.plan.services.panels import dashboard, panels
from operations.plan.services.ports import listens
from tests.node.page_doubles import sources
from tests.node.shipped import part
from tests.plan.samples import ROOT, knobs, plan
from tests.plan.two_models import two_models


def config(of: Plan) -> str:
    return next(file.content for file in of.head.container(PROXY).files if file.path == PROXY_CONFIG)


def settings(of: Plan, index: int = 0) -> dict[str, Any]:
    mine = of.nodes[index].services[PAGE]
    assert mine
    found: dict[str, Any] = json.loads(next(file.content for file in mine.files if file.path.endswith(".json")))
    return found


def exported(of: Plan, index: int) -> dict[str, Any]:
    mine = of.nodes[index].services[EXPORTER]
    assert mine
    found: dict[str, Any] = json.loads(next(file.content for file in mine.files if file.path.endswith(".json")))
    return found


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_each_node_that_serves_has_one_and_its_door_sends_it_there(topology: str) -> None:
    of = plan(topology=topology, monitoring="metrics")
    assert [node for node in of.nodes if PAGE in node.services] == list(of.serving)
    said = config(of)
    assert "acl page path /tandem\n" in said and "acl page path_beg /tandem/\n" in said
    assert "use_backend page if page\n    default_backend litellm" in said
    assert "server page unix@/run/tandem/behind/page/page.sock " in said
    assert said.count("bind ") == config(plan(topology=topology)).count("bind ")
    asked = {node["name"]: node["url"] for node in settings(of)["nodes"]}
    address = "127.0.0.1" if topology == "solo" else "192.168.177.11"
    assert asked["spark-1"] == f"http://{address}:8020" and len(asked) == len(of.serving)
    assert settings(of)["advice"] == str(handed.PLACE)
    (model,) = settings(of)["models"]
    assert model["nodes"] == [node.node.name for node in of.serving] and model["unit"] == "tandem-engine"
    assert model["answers"] == list(of.models[0].endpoints)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topology": "replicas"}, ""),
        ({"topology": "cluster"}, "mp"),
        ({"topology": "cluster", "pipeline_parallel": 2}, "mp in 2 stages"),
    ],
)
def test_it_says_what_joins_the_ranks_and_their_stages(changes: dict[str, Any], said: str) -> None:
    (model,) = settings(plan(monitoring="metrics", **changes))["models"]
    assert model["executor"] == said


def test_of_several_models_it_says_where_each_lies_and_answers() -> None:
    of = two_models(monitoring="metrics")
    # Its model is on another node, and the page shows it all the same.
    for index in (0, 1):
        found = {each["model"]: each for each in settings(of, index)["models"]}
        assert list(found) == ["nemotron", "coder"]
        assert (found["nemotron"]["unit"], found["coder"]["unit"]) == ("tandem-engine-chat", "tandem-engine-coder")
        assert found["nemotron"]["nodes"] == ["spark-1", "spark-2"] and found["coder"]["nodes"] == ["spark-1"]
        assert found["nemotron"]["answers"] == found["coder"]["answers"] == ["spark-1"]
        assert (found["nemotron"]["executor"], found["coder"]["executor"]) == ("mp", "")


def test_an_exporter_passes_on_each_engine_that_answers_there_with_its_model() -> None:
    first, second = (exported(two_models(monitoring="metrics"), index) for index in (0, 1))
    assert {name: each.get("model") for name, each in first["passed"].items()} == {
        "proxy": None,
        "engine-chat": "nemotron",
        "engine-coder": "coder",
    }
    assert list(second["passed"]) == ["proxy"]
    assert {each["unit"]: each["model"] for each in first["facts"]["plans"]} == {
        "tandem-engine-chat": "nemotron",
        "tandem-engine-coder": "coder",
    }
    assert [each["model"] for each in second["facts"]["plans"]] == ["nemotron"]
    assert {"tandem-engine-chat", "tandem-engine-coder"} <= set(first["facts"]["units"])
    (alone,) = exported(plan(monitoring="metrics"), 0)["facts"]["plans"]
    assert alone["unit"] == "tandem-engine"


def test_where_monitoring_is_off_there_is_nothing_of_it() -> None:
    of = plan()
    assert all(PAGE not in node.services for node in of.nodes)
    assert "/tandem\n" not in config(of) and "8023" not in config(of)
    assert 8023 not in listens(of.head.node, of.knobs, 2, of.models)
    after = plan(monitoring="metrics")
    assert of.head.container(PROXY).spec == after.head.container(PROXY).spec


def test_its_unit_is_nobody_s_bounded_and_names_the_key_s_file_alone() -> None:
    mine = plan(monitoring="metrics").head.services[PAGE]
    assert mine
    unit = next(file.content for file in mine.files if file.path.endswith(f"{PAGE}.service"))
    for line in (
        *(
            "DynamicUser=yes",
            "MemoryMax=128M",
            "CPUQuota=20%",
            "OOMScoreAdjust=1000",
            "CapabilityBoundingSet=",
            "Nice=10",
        ),
        *("LoadCredential=key:/etc/tandem/proxy/secrets/master.key", "IPAddressDeny=any", "ProtectSystem=strict"),
        "IPAddressAllow=192.168.177.11/32 192.168.177.12/32",
    ):
        assert f"\n{line}\n" in unit, line
    named = {Path(file.path).name for file in mine.files}
    assert {f"{name}.py" for name in sources()} <= named
    assert {file.name for file in (FILES / "page/static").iterdir()} == {*STATIC, "uplot.json"}


def test_two_programs_on_one_port_are_refused() -> None:
    with pytest.raises(Refusal, match="monitoring_port and prometheus_port are both 8020"):
        knobs(prometheus_port=8020)


def test_what_is_vendored_is_what_its_publisher_has() -> None:
    folder = FILES / "page/static"
    told = json.loads((folder / "uplot.json").read_text())
    for name, each in told["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == each["sha256"], name
    assert f"(v{told['version']})" in (folder / "uplot.js").read_text()[:400]


def test_nothing_of_the_page_is_inline_or_from_elsewhere() -> None:
    folder = FILES / "page/static"
    html = (folder / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", html) == []
    for name in STATIC:
        said = (folder / name).read_text()
        assert name.startswith("uplot") or "innerHTML" not in said
        outside = re.findall(r"https?://[^\s\"'`)]+", said)
        assert name.startswith("uplot") or set(outside) <= {"http://www.w3.org/2000/svg"}, name


def test_each_panel_has_a_name_of_its_own_and_metrics_that_somebody_says() -> None:
    listed = panels("vllm")
    assert len({panel["id"] for panel in listed}) == len(listed)
    others = [panel for engine in ENGINES if engine != "vllm" for panel in panels(engine)]
    exported = "".join(file.read_text() for file in (FILES / "exporter").glob("*.py"))
    documented = (ROOT / "docs/page.md").read_text()
    for panel in (*listed, *others):
        for metric in {panel["metric"], panel.get("over", panel["metric"])}:
            if metric.startswith("tandem_"):
                assert f'"{metric.removeprefix("tandem_")}"' in exported, metric
            else:
                assert f"`{metric}`" in documented, metric
    figures = part("page", "state")
    assert {*figures._MODEL, "kv_fill", "rail_in", "rail_out"} <= {panel["id"] for panel in listed}


def test_an_engine_without_metrics_of_a_kind_has_no_panel_of_it() -> None:
    listed = {panel["id"]: panel["metric"] for panel in panels("tensorrt-llm")}
    assert "tokens_out" not in listed and "memory_available" in listed
    assert not any(metric.startswith("engine ") for metric in listed.values())


def test_grafana_gets_every_panel_with_a_source_of_its_reader_s() -> None:
    told = dashboard()
    assert told["schemaVersion"] >= 36 and told["templating"]["list"][0]["type"] == "datasource"
    assert [panel["title"] for panel in told["panels"]] == [panel["title"] for panel in panels("vllm")]
    for panel in told["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert "[1m]" not in panel["targets"][0]["expr"]
    assert len({panel["id"] for panel in told["panels"]}) == len(told["panels"])


def test_every_file_of_a_node_ends_with_its_last_line() -> None:
    """What is written through pyinfra's standard input does: one that did not would be written at each deploy."""
    for of in plan(2, topology="replicas", monitoring="prometheus").nodes:
        for program in of.services.values():
            for file in program.files if program else ():
                assert file.content.endswith("\n"), file.path


def test_cards_show_the_figures_that_the_state_tells() -> None:
    """A key that only one of the two knows is shown as not known, or never."""
    tell, state = (FILES / "page/static/tell.js").read_text(), part("page", "state")
    shown = {
        name: set(re.findall(r'^  \["(\w+)", ', rows, re.MULTILINE))
        for name, rows in re.findall(r"^const (NODE|MODEL) = \[\n(.*?)^\];", tell, re.MULTILINE | re.DOTALL)
    }
    # When the plan was served is told for programs alone.
    assert shown == {"NODE": state._NODE.keys() - {"served_at"}, "MODEL": {*state._MODEL}}
