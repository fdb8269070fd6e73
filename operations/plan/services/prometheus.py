"""Prometheus on the head: its configuration and its unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import yaml

from operations.paths import PROMETHEUS, folder_of, unit_file
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, as_is, render
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Context, Contract, Start
from operations.plan.services.monitoring import scrape_job, targets
from operations.plan.services.service import SPEC, Program, seal_program
from operations.wire.look import Survey


def prometheus(models: Sequence[str], knobs: Knobs, node: Node, serving: Sequence[Node]) -> Program | None:
    """Prometheus, on the head alone; `models`: what clients call them, `serving`: the nodes that serve. None: it is
    not wanted here.
    """
    if not knobs.runs_prometheus or not node.is_head:
        return None
    folder = folder_of(PROMETHEUS)
    addresses = {each.name: each.fabric for each in serving}
    config = prometheus_config(", ".join(models), knobs, addresses, f"{folder}/rules.yml")
    unit = render(
        "monitoring/tandem-prometheus.service.j2",
        folder=folder,
        # Each node's page asks it.
        address=node.fabric,
        port=knobs.prometheus_port,
        days=knobs.monitoring_days,
        gib=knobs.monitoring_gib,
        spec=SPEC,
    )
    files = [
        File(f"{folder}/prometheus.yml", config),
        File(f"{folder}/rules.yml", as_is("monitoring/rules.yml")),
        File(unit_file(PROMETHEUS), unit),
    ]
    return seal_program(PROMETHEUS, files)


def prometheus_config(model: str, knobs: Knobs, addresses: Mapping[str, str], rules: str) -> str:
    """Prometheus' configuration, as YAML. An alarm that is no one model's has `model` as its label."""
    config = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s", "external_labels": {"model": model}},
        "rule_files": [rules],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{knobs.alertmanager_port}"]}]}],
        },
        "scrape_configs": [scrape_job(targets(knobs, addresses))],
    }
    return yaml.safe_dump(config, sort_keys=False)


def monitoring_remarks(knobs: Knobs, head: Survey) -> Iterator[str]:
    """What an owner should know before the first change, one line each; `head`: its survey."""
    if not knobs.runs_prometheus:
        return
    if not knobs.alarms:
        yield "alarms is empty: they are raised, and nobody is told (docs/monitoring.md in the clone)"
    for line in head.get("deaf", ()):
        yield f"alarms: the head does not reach {line}; `tandem alarm-test` tries it again"
    missing = head["state"]["missing"]
    if missing and head["state"]["refused"]:
        remedy = f"sudo apt update && sudo apt install --no-install-recommends {' '.join(missing)}, and `tandem apply`"
        yield f"nothing keeps metrics or sends alarms, no packages came within the last day; {remedy}"
    elif missing:
        yield f"the head gets the packages {', '.join(missing)} of its distribution, by apt"


def _here(its: Context) -> list[Program | None]:
    return [prometheus([each.recipe.served_name for each in its.models], its.knobs, its.node, its.serving)]


SERVICE = Contract((PROMETHEUS,), _here, Start.OWN_STEP)
