"""Prometheus and Alertmanager on the head: their configurations and their units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import yaml

from operations.paths import ALARM_SECRETS, ALERTMANAGER, PROMETHEUS, folder_of, unit_file
from operations.plan.cluster.nodes import Node
from operations.plan.config.alarms import goes_to, receiver_config, secret_files
from operations.plan.config.files import File, as_is, render
from operations.plan.config.knobs import Knobs
from operations.plan.services.monitoring import scrape_job, targets
from operations.plan.services.service import SPEC, Program, seal_program
from operations.wire import Json
from operations.wire.look import Survey

#: Where systemd puts what it gives to Alertmanager alone.
CREDENTIALS = f"/run/credentials/{ALERTMANAGER}.service"
#: The alarm of `tandem alarm-test` (operations/node/monitoring/alarm_test.py).
TEST_ALARM = "TandemTest"


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


def alertmanager(knobs: Knobs, node: Node) -> Program | None:
    """Alertmanager, beside it."""
    if not knobs.runs_prometheus or not node.is_head:
        return None
    folder = folder_of(ALERTMANAGER)
    known = [goes_to(each) for each in knobs.alarms]
    unit = render(
        "monitoring/tandem-alertmanager.service.j2",
        folder=folder,
        secrets=ALARM_SECRETS,
        names=sorted(secret_files(knobs.alarms)),
        port=knobs.alertmanager_port,
        spec=SPEC,
    )
    files = [
        # A topic of ntfy's and the path of a webhook open them to whoever knows them.
        File(f"{folder}/alertmanager.yml", alertmanager_config(knobs, CREDENTIALS), "600"),
        File(f"{folder}/receivers.json", json.dumps(known, indent=1) + "\n"),
        File(unit_file(ALERTMANAGER), unit),
    ]
    return seal_program(ALERTMANAGER, files)


def alertmanager_config(knobs: Knobs, secrets: str) -> str:
    """Alertmanager's configuration, as YAML; `secrets`: the folder in which it finds passwords and tokens."""
    test: Json = {
        "matchers": [f'alertname="{TEST_ALARM}"'],
        # Each test is told by itself and at once. A receiver that fails is tried for as long as `group_interval`.
        "group_by": ["..."],
        "group_wait": "0s",
        "group_interval": "10s",
    }
    route = {
        "receiver": "owner",
        "group_by": ["node", "model"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "4h",
        "routes": [test],
    }
    config = {"route": route, "receivers": [receiver_config(knobs.alarms, secrets)]}
    return yaml.safe_dump(config, sort_keys=False)


def monitoring_remarks(knobs: Knobs, head: Survey) -> Iterator[str]:
    """What an owner should know before the first change, one line each; `head`: its survey."""
    if not knobs.runs_prometheus:
        return
    if not knobs.alarms:
        yield "alarms is empty: they are raised, and nobody is told (docs/monitoring.md)"
    for line in head.get("deaf", ()):
        yield f"alarms: the head does not reach {line}; `tandem alarm-test` tries it again"
    missing = head["state"]["missing"]
    if missing and head["state"]["refused"]:
        remedy = f"sudo apt update && sudo apt install --no-install-recommends {' '.join(missing)}, and `tandem apply`"
        yield f"nothing keeps metrics or sends alarms, no packages came within the last day; {remedy}"
    elif missing:
        yield f"the head gets the packages {', '.join(missing)} of its distribution, by apt"
