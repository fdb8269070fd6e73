"""A lab with Prometheus and Alertmanager on its head; who gets the alarms are a webhook and a mailbox out here."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.lab import cluster, node
from tests.lab.cluster import HEAD, Deploy, deploy, on
from tests.lab.settings import MANAGEMENT_NET
from tests.node import receivers, watchers
from tests.node.receivers import Received

TOKEN = "t0ken-of-the-lab"


@dataclass
class Watched:
    """`knobs` of the deploy; what the webhook and the mailbox get."""

    knobs: dict[str, Any]
    webhook: Received
    mail: Received

    def deploy(self, **more: Any) -> Deploy:
        return deploy(**self.knobs | more)

    def verb(self, name: str) -> subprocess.CompletedProcess[str]:
        data = " ".join(f"{knob}={shlex.quote(str(value))}" for knob, value in self.knobs.items())
        argv = ["make", "-s", name, f"INVENTORY={cluster.INVENTORY}", f"DATA={data}"]
        return subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=False)

    def alerts(self, name: str, status: str) -> list[dict[str, Any]]:
        """Alarms that the webhook has been told of."""
        told = [alert for _, _, body in self.webhook.hooks for alert in body["alerts"]]
        return [each for each in told if (each["labels"]["alertname"], each["status"]) == (name, status)]

    def mails(self, name: str, status: str) -> list[str]:
        """Texts of mails that tell of this alarm."""
        lines = (f"alarm: {name},", f"{status}: ")
        return [text for _, text in self.mail.mails if all(line in text for line in lines)]


@contextmanager
def watching(folder: Path, **knobs: Any) -> Iterator[Watched]:
    """What to deploy; nothing is deployed yet. `folder`: for a secret."""
    token = folder / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    here = f"{MANAGEMENT_NET}.1"
    with receivers.webhook(here) as webhook, receivers.mail_server(here) as mail:
        alarms = [
            {"webhook": f"http://{here}:{webhook.port}/hook", "token_file": str(token)},
            {"email": "you@x.org", "from": "spark@x.org", "smtp": f"{here}:{mail.port}", "plain": True},
        ]
        # `make` takes words apart at spaces.
        told = json.dumps(alarms, separators=(",", ":"))
        yield Watched({"topology": "replicas", "monitoring": "prometheus", "alarms": told, **knobs}, webhook, mail)


def bring_programs(folder: Path) -> None:
    """Debian's programs to the head, which has no way to a registry of packages."""
    root = watchers.unpacked(folder)
    wanted = ["usr/bin/prometheus", "usr/bin/prometheus-alertmanager", "usr/share/prometheus"]
    packed = subprocess.run(["tar", "-C", root, "-c", *wanted], capture_output=True, check=True).stdout
    subprocess.run([*node.ssh_argv(HEAD), "sudo tar -C / -x --no-same-owner"], input=packed, check=True)


def take_programs_away() -> None:
    """And what they have kept: as the lab's other tests find it."""
    kept = (
        "/var/lib/tandem/no-packages /var/lib/private/tandem-* /var/lib/tandem-prometheus /var/lib/tandem-alertmanager"
    )
    on(HEAD, f"rm -rf /usr/bin/prometheus /usr/bin/prometheus-alertmanager /usr/share/prometheus {kept}")


def is_ready() -> bool:
    """Whether Prometheus answers: started anew it reads what it has first."""
    return on(HEAD, "curl -sf -m 5 http://192.168.177.11:8021/-/ready", check=False) != ""


def asked(query: str) -> list[dict[str, Any]]:
    """What Prometheus answers to a query now; raises AssertionError where it does not."""
    said = on(HEAD, f"curl -sf 'http://192.168.177.11:8021/api/v1/query?query={quote(query, safe='')}'")
    found: list[dict[str, Any]] = json.loads(said)["data"]["result"]
    return found
