"""Stages on the lab: PP=2 over two nodes, TP=2 x PP=2 over four; a token takes the links that it should, and no other.

The tiny model has two layers and four heads: two stages are all that it can be put into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.lab import chat, cluster, model
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LINKS, LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

FOUR = [LabNode(index) for index in range(4)]
RAIL, MANAGEMENT = LINKS["rail0"], LINKS["mgmt"]
ASKED = 20
#: Bytes on a rail for each request of eight tokens: what the scheduler tells the ranks, and what stages hand on.
A_REQUEST = 5_000
#: Bytes that two ranks send each other for it: a token's hidden state has 512, and takes eight steps.
A_PAIR = 2_000
#: Four ranks and their proxies on a machine that may have two cores.
WANTED: dict[str, Any] = {"topology": "cluster", "executor": "mp", "pipeline_parallel": 2, "canary_deadline": 10.0}


@pytest.fixture(scope="module")
def two(lab: None) -> dict[str, str]:
    """A stage on each of two nodes."""
    done = deploy(**WANTED)
    assert done.code == 0, done.text
    return chat.endpoint()


@pytest.fixture(scope="module")
def four(lab: None) -> Iterator[dict[str, str]]:
    """Two stages of two nodes each, on a switch; afterwards the lab is as it was."""
    cluster.lab("up", NODES="4", WIRING="")
    try:
        done = deploy(**WANTED)
        assert done.code == 0, done.text
        yield chat.endpoint()
    finally:
        cluster.lab("up")


def sizes(node: LabNode) -> tuple[str, str]:
    """Tensor- and pipeline-parallel size, as a rank was started with them."""
    command = on(node, "cat /etc/tandem/engine/start.sh")
    found = re.search(r"--tensor-parallel-size (\d+) --pipeline-parallel-size (\d+)", command)
    assert found, command
    return found[1], found[2]


def rails(nodes: list[LabNode]) -> dict[str, tuple[int, int]]:
    """Bytes on each node's first rail and on its management link."""
    return {node.name: (cluster.link_bytes(node, RAIL), cluster.link_bytes(node, MANAGEMENT)) for node in nodes}


def spoken(nodes: list[LabNode]) -> dict[frozenset[int], int]:
    """Bytes that the connections between each two nodes have sent over the fabric, both ways, by the nodes' indices."""
    sent = {frozenset(pair): 0 for pair in combinations(range(len(nodes)), 2)}
    for node in nodes:
        for line in on(node, "ss -HtinO state established").splitlines():
            ends = [int(end) for end in re.findall(r"192\.168\.177\.(\d+)[\]:]", line)]
            count = re.search(r"bytes_sent:(\d+)", line)
            if len(ends) == 2 and count and frozenset(end - 11 for end in ends) in sent:
                sent[frozenset(end - 11 for end in ends)] += int(count[1])
    return sent


def assert_on_the_rails(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> None:
    for name, (rail, management) in after.items():
        on_rail, on_management = rail - before[name][0], management - before[name][1]
        assert on_rail > ASKED * A_REQUEST, (name, on_rail)
        # The head's proxy is what this machine asks, over its management link.
        if name != HEAD.name:
            assert on_management < on_rail / 10, (name, on_management, on_rail)


def test_two_nodes_are_two_stages(two: dict[str, str]) -> None:
    assert [sizes(node) for node in (HEAD, WORKER)] == [("1", "2")] * 2
    assert cluster.complete(two) == 8
    again = deploy(**WANTED)
    assert (again.code, again.changes) == (0, 0), again.text


def test_what_a_stage_hands_on_takes_the_rail(two: dict[str, str]) -> None:
    before = rails([HEAD, WORKER])
    assert cluster.complete_many(two, ASKED) == [8] * ASKED
    assert_on_the_rails(before, rails([HEAD, WORKER]))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"pipeline_parallel": 3}, "pipeline_parallel=3 wants 3 nodes or more, one for each stage"),
        ({"topology": "replicas"}, "only a cluster has stages"),
    ],
)
def test_stages_that_can_t_be_are_refused_and_what_serves_serves_on(
    two: dict[str, str], knobs: dict[str, Any], said: str
) -> None:
    refused = deploy(**{**WANTED, **knobs})
    assert refused.code == 1 and said in refused.text and "Traceback" not in refused.text
    assert cluster.complete(two) == 8


def test_a_rank_that_dies_is_met_again_by_the_other_stage(two: dict[str, str]) -> None:
    on(WORKER, "docker kill tandem-engine")
    cluster.wait_until_served(two, 300)
    assert cluster.complete(two) == 8


def test_four_nodes_are_two_stages_of_two(four: dict[str, str]) -> None:
    assert [sizes(node) for node in FOUR] == [("2", "2")] * 4
    assert cluster.complete(four) == 8
    again = deploy(**WANTED)
    assert (again.code, again.changes) == (0, 0), again.text


def test_a_token_takes_the_links_of_its_stage_and_to_the_next(four: dict[str, str]) -> None:
    before, links = spoken(FOUR), rails(FOUR)
    assert cluster.complete_many(four, ASKED) == [8] * ASKED
    after = spoken(FOUR)
    assert_on_the_rails(links, rails(FOUR))
    moved = {tuple(sorted(pair)): after[pair] - before[pair] for pair in after}
    # Ranks 0 and 1 share the first stage, 2 and 3 the second; 0 hands on to 2, and 1 to 3.
    pairs = [(0, 1), (2, 3), (0, 2), (1, 3)]
    assert all(moved[pair] > ASKED * A_PAIR for pair in pairs), moved
    # Rank 1 and rank 2 have nothing to say to each other; the scheduler, on the head, has for each of them.
    assert moved[1, 2] < min(moved[pair] for pair in pairs) / 10, moved


def test_more_stages_than_the_model_has_layers_are_refused_by_its_own_configuration(four: dict[str, str]) -> None:
    refused = deploy(**{**WANTED, "pipeline_parallel": 4})
    assert refused.code == 1 and "Traceback" not in refused.text
    assert f"has {model.LAYERS} layers, too few for pipeline_parallel=4" in " ".join(refused.text.split())
    assert cluster.complete(four) == 8
