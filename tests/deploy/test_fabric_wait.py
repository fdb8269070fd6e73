"""How long a node may be out of reach when its network is changed: NetworkManager ends Wi-Fi's connection too."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from operations.node.network import rails
from operations.node.network.rails import GUARD_S
from operations.runner import tether
from operations.steps import fabric


@pytest.fixture
def clocks() -> list[Any]:
    return []


@pytest.fixture
def apply(monkeypatch: pytest.MonkeyPatch, clocks: list[Any]) -> Callable[..., Any]:
    """Applies, to a node that is back after so many seconds of a clock of our own; the call breaks after `broken_s`."""

    def applied(back_s: float, broken_s: float = 0) -> Any:
        clock = SimpleNamespace(now=0.0)

        def sleep(seconds: float) -> None:
            clock.now += seconds

        def connect(**_: Any) -> None:
            sleep(1)
            if clock.now < back_s:
                raise OSError("no route to host")

        hub = SimpleNamespace(loop=SimpleNamespace(now=lambda: clock.now))
        monkeypatch.setattr(fabric, "gevent", SimpleNamespace(get_hub=lambda: hub, sleep=sleep))
        monkeypatch.setattr(tether, "quicken", lambda _host: None)

        def ask(_host: Any, program: Callable[..., Any], _paths: Any) -> dict[str, Any]:
            if program is rails.apply and broken_s:
                sleep(broken_s)
                raise OSError("the connection broke")
            return {"problem": ""} if program is rails.apply else {"kept": clock.now < GUARD_S}

        monkeypatch.setattr(fabric, "ask", ask)

        node: Any = SimpleNamespace(disconnect=lambda: None, connect=connect)
        state: Any = None
        clocks.append(clock)
        return fabric._apply(["rails"])(state, node), clock.now

    return applied


def test_a_node_that_is_back_before_its_guard_has_acted_is_waited_for(apply: Callable[..., Any]) -> None:
    done, seconds = apply(45)
    assert done is True and 45 <= seconds < GUARD_S


def test_one_that_is_not_is_given_up_before(apply: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match=r"by itself after 60 s\. .* over Wi-Fi can be slow"):
        apply(1000)


def test_the_guard_s_time_runs_while_the_call_that_armed_it_hangs(apply: Callable[..., Any], clocks: list[Any]) -> None:
    with pytest.raises(RuntimeError, match="out of reach since netplan was applied"):
        apply(1000, 30)
    assert clocks[0].now < GUARD_S
    with pytest.raises(RuntimeError, match=r"guard has .* Run the deploy again; a node that is reached over Wi-Fi"):
        apply(62, 62)
