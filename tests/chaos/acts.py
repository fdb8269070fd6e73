"""What faults are made of: commands, signals, cables and plugs of the lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import partial

from tests.chaos.scene import Scene, at_once
from tests.lab import cluster
from tests.lab.cluster import lab, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import LabNode

Act = Callable[[Scene], None]
#: Seconds in which the state of what is left is told.
STATUS_S = 10.0


def sh(node: LabNode, command: str) -> Act:
    """A command on a node."""

    def act(_scene: Scene) -> None:
        on(node, command)

    return act


def on_lab(*words: str) -> Act:
    """A verb of the lab."""

    def act(_scene: Scene) -> None:
        lab(*words)

    return act


def send(sig: str, node: LabNode, pattern: str) -> Act:
    """A signal to the first process of a node whose command line has the pattern; fails when there is none."""

    def act(_scene: Scene) -> None:
        # In brackets the first letter does not find the shell that looks for it.
        on(node, f"kill -{sig} $(pgrep -of '[{pattern[0]}]{pattern[1:]}')")

    return act


def on_holder(act_on: Callable[[LabNode], Act]) -> Act:
    """An act on the node that has the virtual address when it begins; fails where that is not one."""

    def act(scene: Scene) -> None:
        act_on(_holder(scene))(scene)

    return act


def on_other(act_on: Callable[[LabNode], Act]) -> Act:
    """An act on the node that serves and has not the virtual address when it begins."""

    def act(scene: Scene) -> None:
        holder = _holder(scene)
        act_on(next(each for each in scene.serving if each != holder))(scene)

    return act


def _holder(scene: Scene) -> LabNode:
    holders = scene.holders
    assert len(holders) == 1, f"{[each.name for each in holders]} have {scene.address}"
    return holders[0]


def off(*nodes: LabNode) -> Act:
    """Pull the plug, and leave it so."""

    def act(_scene: Scene) -> None:
        at_once(*(partial(power_off, each) for each in nodes))

    return act


def shut_down(node: LabNode) -> Act:
    """The polite way, and it stays off."""

    def act(_scene: Scene) -> None:
        on(node, "systemctl poweroff", check=False)

    return act


def power_again(*nodes: LabNode) -> Act:
    """Put the plug back, and wait until they are booted."""

    def act(_scene: Scene) -> None:
        for each in nodes:
            power_on(each)
        at_once(*(partial(wait_until_up, each) for each in nodes))

    return act


def power(*nodes: LabNode) -> Act:
    """Pull the plug of all at once, and put it back."""
    return all_of(off(*nodes), power_again(*nodes))


def status_says(*words: str) -> Act:
    """`tandem status` has these words in what it prints, in less than ten seconds, whatever is away."""

    def act(_scene: Scene) -> None:
        argv = ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"]
        start = time.monotonic()
        told = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=False).stdout
        took = time.monotonic() - start
        lacking = [word for word in words if word not in " ".join(told.split())]
        assert not lacking, f"status does not say {lacking}: {told}"
        assert took < STATUS_S, f"status took {took:.1f} s"

    return act


def pause(seconds: float) -> Act:
    """Nothing."""

    def act(_scene: Scene) -> None:
        time.sleep(seconds)

    return act


def reboot(*nodes: LabNode) -> Act:
    """The polite way."""

    def act(_scene: Scene) -> None:
        at_once(*(partial(on, node, "systemctl reboot", check=False) for node in nodes))
        time.sleep(8)

    return act


def until_alone(node: LabNode, within_s: float) -> Act:
    """Wait until the proxies give tokens of this node's own engine, in the place of a cluster; raises TimeoutError."""

    def act(scene: Scene) -> None:
        start = time.monotonic()
        while not (alone(node) and scene.proxy_answers()):
            if time.monotonic() - start > within_s:
                raise TimeoutError(f"{node.name} does not serve alone after {within_s:.0f} s")
            time.sleep(0.5)

    return act


def alone(node: LabNode) -> str:
    """Since when a node serves alone, and why; empty: it does not, or its engine has not begun to."""
    about = "cat /run/tandem/alone.json && docker inspect --format '{{.Config.Labels}}' tandem-engine"
    told = on(node, about, check=False)
    return told.splitlines()[0] if "tandem.topology:solo" in told else ""


def all_of(*acts: Act) -> Act:
    """One after the other."""

    def act(scene: Scene) -> None:
        for each in acts:
            each(scene)

    return act


def until_all_answer(scene: Scene) -> None:
    """Wait for every engine and the proxy."""
    scene.wait_until_all_answer(time.monotonic(), within_s=240)
