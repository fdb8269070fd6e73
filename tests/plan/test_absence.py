"""What is said of a node that does not answer."""

from __future__ import annotations

import pytest

from operations.plan.absence import NO_ROUTE, Absence, absent, told

DARK = Absence("spark-2", "does not answer (no route to host)", "switch it on", dark=True)


@pytest.mark.parametrize(
    ("topology", "is_head", "said"),
    [
        ("solo", False, "the service needs nothing of it"),
        ("solo", True, "nothing answers"),
        ("replicas", False, "its engine is missing, the others serve"),
        ("replicas", True, "its engine is missing, the others serve"),
        ("cluster", False, "no rank can serve without it, the others wait for it and meet again when it is back"),
        ("cluster", True, "no rank can serve without it, the others wait for it"),
    ],
)
def test_one_line_says_what_the_service_does_meanwhile(topology: str, is_head: bool, said: str) -> None:
    line = told(DARK, topology, is_head, since="14:03")
    assert line.startswith(f"spark-2 does not answer (no route to host), away since 14:03: {said}")
    assert line.endswith(". To do: switch it on")
    assert "\n" not in line


def test_where_the_topology_is_not_known_only_the_remedy_is_said() -> None:
    assert told(DARK) == "spark-2 does not answer (no route to host): switch it on"


def test_its_code_stands_at_the_end_of_the_line() -> None:
    assert told(absent(NO_ROUTE, "spark-2")) == (
        "spark-2 does not answer (no route to host): switch it on, or look at its network cable [reach-no-route]"
    )


def test_a_node_that_refuses_us_may_well_serve() -> None:
    refused = Absence("spark-2", "refuses the login spark@spark-2", "ssh-copy-id spark@spark-2")
    assert "spark@spark-2: if it is down, its engine is missing" in told(refused, "replicas")
