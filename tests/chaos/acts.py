"""What faults are made of: commands, signals, cables and plugs of the lab."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tests.chaos.scene import Scene, at_once
from tests.e2e.cluster import lab, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import LabNode

Act = Callable[[Scene], None]


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


def power(*nodes: LabNode) -> Act:
    """Pull the plug of all at once, and put it back."""

    def act(_scene: Scene) -> None:
        at_once(*(partial(power_off, each) for each in nodes))
        for each in nodes:
            power_on(each)
        at_once(*(partial(wait_until_up, each) for each in nodes))

    return act


def reboot(*nodes: LabNode) -> Act:
    """The polite way."""

    def act(_scene: Scene) -> None:
        at_once(*(partial(on, node, "systemctl reboot", check=False) for node in nodes))
        time.sleep(8)

    return act


def all_of(*acts: Act) -> Act:
    """One after the other."""

    def act(scene: Scene) -> None:
        for each in acts:
            each(scene)

    return act


def until_all_answer(scene: Scene) -> None:
    """Wait for every engine and the proxy."""
    scene.wait_until_all_answer(time.monotonic(), within_s=240)
