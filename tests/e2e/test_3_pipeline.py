"""Ranks on the lab: PP=2 over two nodes, TP=2 x PP=2 over four, two pairs side by side, PP=3 over a ring of three; a
token takes the links that it should, and no other.

The tiny model has two layers and four heads: two stages are all that it can be put into. Three have one of their own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import pytest

from tests.lab import chat, cluster, deeper, model
from tests.lab.cluster import HEAD, WORKER, deploy, on
from tests.lab.settings import LINKS, PORT_0, PORT_1, LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

FOUR = [LabNode(index) for index in range(4)]
RAIL, MANAGEMENT = LINKS["rail0"], LINKS["mgmt"]
ASKED = 20
#: Bytes on a rail for each request of eight tokens: what the scheduler tells the ranks, and what stages hand on.
A_REQUEST = 5_000
#: Bytes that two ranks send each other for it: a token's hidden state has 512, and takes eight steps.
A_PAIR = 2_000
#: Four ranks and their proxies on a machine that may have two cores.
MP: dict[str, Any] = {"executor": "mp", "canary_deadline": 10.0}
WANTED: dict[str, Any] = {**MP, "topology": "cluster", "pipeline_parallel": 2}
#: At random: the other routing may keep to one pair as long as that is idle.
PAIRS: dict[str, Any] = {**MP, "topology": "replicas", "nodes_per_replica": 2, "routing": "simple-shuffle"}
THREE = FOUR[:3]
#: By which each node of a ring is called, at its cable to the next one.
CALLED = ("192.168.177.11", "192.168.177.76", "192.168.177.141")


@contextmanager
def deployed(knobs: dict[str, Any], **desk: str) -> Iterator[dict[str, str]]:
    """Where the proxy of it is. `desk`: another lab than the two nodes, which are back afterwards."""
    if desk:
        cluster.lab("up", **desk)
    try:
        done = deploy(**knobs)
        assert done.code == 0, done.text
        yield chat.endpoint()
    finally:
        if desk:
            cluster.lab("up")


@pytest.fixture(scope="module")
def two(lab: None) -> Iterator[dict[str, str]]:
    """A stage on each of two nodes."""
    with deployed(WANTED) as at:
        yield at


@pytest.fixture(scope="module")
def four(lab: None) -> Iterator[dict[str, str]]:
    """Two stages of two nodes each, on a switch."""
    with deployed(WANTED, NODES="4", WIRING="") as at:
        yield at


@pytest.fixture(scope="module")
def pairs(lab: None) -> Iterator[dict[str, str]]:
    """Two clusters of two, behind one name."""
    with deployed(PAIRS, NODES="4", WIRING="") as at:
        yield at


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three stages, of a model that has so many layers."""
    recipe = deeper.recipe(tmp_path_factory.mktemp("recipes"))
    return {**MP, "topology": "cluster", "pipeline_parallel": 3, "recipe": recipe}


@pytest.fixture(scope="module")
def ring(lab: None, staged: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Three nodes with a cable between each two, a stage on each."""
    with deployed(staged, NODES="3", WIRING="ring") as at:
        yield at


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
    assert refused.refused and said in refused.text and "Traceback" not in refused.text
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
    assert refused.refused and "Traceback" not in refused.text
    assert f"has {model.LAYERS} layers, too few for pipeline_parallel=4" in " ".join(refused.text.split())
    assert cluster.complete(four) == 8


def ids(nodes: list[LabNode]) -> list[str]:
    """The containers of their engines."""
    return [on(node, "docker ps --no-trunc --quiet --filter name=^tandem-engine$").strip() for node in nodes]


def test_two_pairs_are_two_engines_of_one_name(pairs: dict[str, str]) -> None:
    commands = [on(node, "cat /etc/tandem/engine/start.sh") for node in FOUR]
    found = [
        re.search(r"--tensor-parallel-size (\d) .*--node-rank (\d) --master-addr (\S+)", each) for each in commands
    ]
    first, second = "192.168.177.11", "192.168.177.13"
    assert [each.groups() for each in found if each] == [
        *(("2", "0", first), ("2", "1", first), ("2", "0", second), ("2", "1", second))
    ]
    assert cluster.complete(pairs) == 8
    again = deploy(**PAIRS)
    assert (again.code, again.changes) == (0, 0), again.text


def test_each_pair_answers_and_its_ranks_speak_with_each_other_alone(pairs: dict[str, str]) -> None:
    addresses = {0: "192.168.177.11", 2: "192.168.177.13"}
    served = {first: cluster.requests_served(FOUR[first], address) for first, address in addresses.items()}
    before, links = spoken(FOUR), rails(FOUR)
    assert cluster.complete_many(pairs, ASKED) == [8] * ASKED
    after, links_after = spoken(FOUR), rails(FOUR)
    for first, address in addresses.items():
        assert cluster.requests_served(FOUR[first], address) > served[first], address
    moved = {tuple(sorted(pair)): after[pair] - before[pair] for pair in after}
    # Each pair has had some of the requests. The proxy of the head asks the other pair's first node.
    assert min(moved[0, 1], moved[2, 3]) > A_PAIR, moved
    assert max(moved[each] for each in ((0, 3), (1, 2), (1, 3))) < min(moved[0, 1], moved[2, 3]) / 10, moved
    for name, (rail, management) in links_after.items():
        if name != HEAD.name:
            assert management - links[name][1] < (rail - links[name][0]) / 10 + A_REQUEST, name


def test_a_pair_that_is_lost_leaves_the_other(pairs: dict[str, str]) -> None:
    before = ids(FOUR)
    on(FOUR[3], "docker kill tandem-engine")
    assert cluster.complete_many(pairs, ASKED, at_once=4) == [8] * ASKED
    deadline = time.monotonic() + 300
    while not on(FOUR[2], "curl -s -m 2 http://192.168.177.13:8001/v1/models", check=False):
        assert time.monotonic() < deadline, "the second pair has not met again"
        time.sleep(2)
    after = ids(FOUR)
    assert after[:2] == before[:2] and after[3] != before[3]


def test_pairs_are_renewed_one_after_the_other(pairs: dict[str, str]) -> None:
    done = deploy(**{**PAIRS, "canary_deadline": 11.0, "engine_port": 8041})
    assert done.code == 0, done.text
    assert cluster.complete_many(pairs, 4) == [8] * 4
    back = deploy(**PAIRS)
    assert back.code == 0, back.text


def test_groups_that_do_not_come_out_even_are_refused(pairs: dict[str, str]) -> None:
    refused = deploy(**{**PAIRS, "nodes_per_replica": 3})
    assert refused.refused and "nodes_per_replica=3 wants 6 nodes or more" in " ".join(refused.text.split())
    assert cluster.complete(pairs) == 8


def cables(nodes: list[LabNode]) -> list[int]:
    """Bytes on the cable from each node's port 1 to the next node."""
    return [sum(cluster.link_bytes(node, LINKS[rail]) for rail in PORT_1) for node in nodes]


def test_a_ring_is_found_and_each_node_reaches_both_others_directly(ring: dict[str, str]) -> None:
    for index, node in enumerate(THREE):
        for other in range(3):
            if other != index:
                port = PORT_1 if other == (index + 1) % 3 else PORT_0
                assert f" dev {LINKS[port[0]]} " in on(node, f"ip route get {CALLED[other]}"), (index, other)


def test_three_nodes_of_a_ring_are_three_stages(ring: dict[str, str], staged: dict[str, Any]) -> None:
    assert [sizes(node) for node in THREE] == [("1", "3")] * 3
    assert cluster.complete(ring) == 8
    again = deploy(**staged)
    assert (again.code, again.changes) == (0, 0), again.text


def test_a_token_takes_all_three_cables_of_a_ring(ring: dict[str, str]) -> None:
    before, management = cables(THREE), [cluster.link_bytes(node, MANAGEMENT) for node in THREE]
    assert cluster.complete_many(ring, ASKED) == [8] * ASKED
    moved = [now - then for now, then in zip(cables(THREE), before, strict=True)]
    # 0 hands on to 1 and 1 to 2; the scheduler, on the head, has for 1 and 2, and 2 says the token.
    assert min(moved) > ASKED * A_PAIR, moved
    for index in (1, 2):
        assert cluster.link_bytes(THREE[index], MANAGEMENT) - management[index] < min(moved) / 2, moved


def test_a_cable_of_a_ring_that_was_out_is_met_over_again(ring: dict[str, str]) -> None:
    for verb in ("cut", "heal"):
        for rail in PORT_1:
            cluster.lab(verb, f"{THREE[1].name}:{rail}")
        time.sleep(20 if verb == "cut" else 0)
    cluster.wait_until_served(ring, 300)
    assert cluster.complete(ring) == 8


def test_two_nodes_of_what_was_a_ring_are_joined_by_a_cable_again(ring: dict[str, str]) -> None:
    """The lab goes back to two: what the ring has left on the other port is in nobody's way."""
    cluster.lab("up")
    done = deploy(topology="cluster", **MP)
    assert done.code == 0, done.text
    assert cluster.complete(chat.endpoint()) == 8
    again = deploy(topology="cluster", **MP)
    assert (again.code, again.changes) == (0, 0), again.text
