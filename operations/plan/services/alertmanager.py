"""Alertmanager on the head, beside Prometheus: its configuration and its unit."""

from __future__ import annotations

import json

import yaml

from operations.paths import ALARM_SECRETS, ALERTMANAGER, folder_of, unit_file
from operations.plan.cluster.nodes import Node
from operations.plan.config.alarms import goes_to, receiver_config, secret_files
from operations.plan.config.files import File, render
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Contract, Start
from operations.plan.services.service import SPEC, Program, seal_program
from operations.wire import Json

#: Where systemd puts what it gives to Alertmanager alone.
CREDENTIALS = f"/run/credentials/{ALERTMANAGER}.service"
#: The alarm of `tandem alarm-test` (operations/node/monitoring/alarm_test.py).
TEST_ALARM = "TandemTest"


def alertmanager(knobs: Knobs, node: Node) -> Program | None:
    """Alertmanager, on the head alone; None: it is not wanted here."""
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


SERVICE = Contract((ALERTMANAGER,), lambda its: [alertmanager(its.knobs, its.node)], Start.OWN_STEP)
