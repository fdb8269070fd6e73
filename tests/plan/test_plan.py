"""What depends on what: specs, endpoints, and topologies that can't be."""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from dataclasses import replace

import pytest
import yaml

from operations.paths import EXPORTER, FABRIC, FALLBACK, PROXY
from operations.plan.cluster.nodes import Link, choose_rails, on_fabric, rails_between
from operations.plan.config.files import File
from operations.plan.config.refusal import Refusal
from operations.plan.plan import NodePlan
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.images import engine_image
from operations.plan.services.monitoring import addresses_by_knobs, scrape_config, targets
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan, ring, ring_plan


def specs(of: object) -> list[str]:
    return [engine_of(each).spec for each in of.serving]  # type: ignore[attr-defined]


def test_a_cluster_has_one_spec_over_all_ranks() -> None:
    assert len(set(specs(plan(topology="cluster")))) == 1


def test_replicas_have_a_spec_each() -> None:
    assert len(set(specs(plan(topology="replicas")))) == 2


def test_a_change_to_one_rank_restarts_every_rank() -> None:
    wanted = knobs(topology="cluster")
    recipe = load_recipe(wanted.recipe)
    before = nodes(2, wanted)
    after = [before[0], before[1].__class__(**{**before[1].__dict__, "rails": ("enp1s0f1np1", "enP2p1s0f1np1")})]
    old, new = make_plan(recipe, wanted, before), make_plan(recipe, wanted, after)
    assert set(specs(old)).isdisjoint(specs(new))


def test_the_spec_stands_in_the_container_s_label_and_nothing_else_is_left_to_fill_in() -> None:
    engine = engine_of(plan(topology="cluster").head)
    assert engine is not None
    run = next(file for file in engine.files if file.path.endswith("run.sh"))
    assert f"--label tandem.spec={engine.spec}" in run.content
    assert not any("@SPEC@" in file.content for file in engine.files)


def test_a_proxy_knob_does_not_restart_engines() -> None:
    assert specs(plan(topology="cluster", proxy_port=9000)) == specs(plan(topology="cluster"))


@pytest.mark.parametrize(
    ("topology", "engines"),
    [
        ("solo", {"spark-1": "http://127.0.0.1:8001"}),
        ("cluster", {"spark-1": "http://192.168.177.11:8001"}),
        ("replicas", {"spark-1": "http://192.168.177.11:8001", "spark-2": "http://192.168.177.12:8001"}),
    ],
)
def test_engines_listen_on_loopback_or_the_fabric(topology: str, engines: dict[str, str]) -> None:
    assert plan(topology=topology).models[0].endpoints == engines


@pytest.mark.parametrize(
    ("bind", "on_the_others"),
    [("all", "http://10.0.0.12:8000"), ("loopback", "http://127.0.0.1:8000"), ("10.0.0.11", "http://127.0.0.1:8000")],
)
def test_clients_know_one_address_of_each_node_that_serves(bind: str, on_the_others: str) -> None:
    heads = "http://127.0.0.1:8000" if bind == "loopback" else "http://10.0.0.11:8000"
    assert plan(topology="solo", proxy_bind=bind).urls == {"spark-1": heads}
    for topology in ("cluster", "replicas"):
        assert plan(topology=topology, proxy_bind=bind).urls == {"spark-1": heads, "spark-2": on_the_others}


def waits_for(each: NodePlan) -> list[str]:
    """Rails that the engine's start on a node waits for."""
    ready = next(file for file in engine_of(each).files if file.path.endswith("ready.sh"))
    return re.findall(r"wait_while rail_is_missing (\S+ \S+)", ready.content)


def test_only_a_rank_waits_for_its_rails() -> None:
    """An engine by itself serves its own node without their netdevs: the firewall holds its address."""
    assert waits_for(plan(topology="cluster").nodes[1]) == [
        "enp1s0f0np0 192.168.177.12",
        "enP2p1s0f0np0 192.168.178.12",
    ]
    for topology in ("replicas", "solo"):
        for each in plan(topology=topology).serving:
            assert waits_for(each) == []


def test_who_serves_alone_for_a_cluster_waits_for_no_rail() -> None:
    """It does so because its rails are gone, for one."""
    of = plan(topology="cluster", fallback="solo", executor="mp", recipe="nemotron-3-super-nvfp4-marlin")
    files = {file.path: file.content for service in of.nodes[1].services.values() for file in service.files}
    assert "rail_is_missing" in files["/etc/tandem/engine/ready.sh"]
    assert "rail_is_missing" not in files["/etc/tandem/fallback/ready.sh"]
    assert json.loads(files["/etc/tandem/fallback/fallback.json"])["rails"] == ["enp1s0f0np0", "enP2p1s0f0np0"]


def test_of_a_ring_s_rails_a_rank_waits_for_those_that_lead_to_other_ranks() -> None:
    assert len(waits_for(ring_plan(topology="cluster").head)) == 4
    assert rails_between(ring(knobs())[0], ring(knobs())[:2]) == [
        {"device": "enp1s0f0np0", "address": "192.168.177.11"},
        {"device": "enP2p1s0f0np0", "address": "192.168.178.11"},
    ]


def test_solo_is_the_same_with_a_second_node_and_without() -> None:
    alone, with_another = plan(1, topology="solo"), plan(2, topology="solo")
    assert alone.head == with_another.head
    assert [each.fabric for each in with_another.nodes] == [(), ()]
    assert not [file.path for file in engine_of(alone.head).files if "192.168.17" in file.content]


def test_rails_keep_their_addresses_without_a_carrier_whoever_renders_netplan() -> None:
    """netplan 0.106 and 1.1.2 make ConfigureWithoutCarrier of `ignore-carrier` for networkd, and nothing for
    NetworkManager: that has a file of its own.
    """
    for each in plan(topology="replicas").nodes:
        netplan, network_manager, sysctl = each.fabric
        assert (netplan.path, network_manager.path, sysctl.path) == FABRIC
        for rail in each.node.rails:
            assert re.search(rf"{rail}:(\n      .*)*\n      ignore-carrier: true\n", netplan.content)
        read = ConfigParser()
        read.read_string(network_manager.content)
        section = read["device-tandem-rails"]
        assert section["match-device"].split(";") == [f"interface-name:{rail}" for rail in each.node.rails]
        assert section["ignore-carrier"] == "yes"


def reached_at(address: str, bind: str) -> str:
    """What clients are told when the head's login goes to this address."""
    wanted = knobs(topology="solo", proxy_bind=bind)
    head = replace(nodes(1, wanted)[0], management=address)
    return make_plan(load_recipe(wanted.recipe), wanted, [head]).urls[head.name]


def test_an_ipv6_address_has_brackets_before_its_port() -> None:
    assert reached_at("fd00::11", "management") == "http://[fd00::11]:8000"
    assert reached_at("fe80::1%eth0", "loopback") == "http://127.0.0.1:8000"
    assert reached_at("fe80::1%eth0", "10.0.0.11") == "http://10.0.0.11:8000"


@pytest.mark.parametrize(
    ("address", "bind", "said"),
    [
        ("fe80::1%eth0", "management", "goes to fe80::1%eth0, which other nodes can't name"),
        ("fe80::1", "all", "goes to fe80::1, the proxy would listen on IPv4 alone"),
        ("fd00::11", "all", "goes to fd00::11, the proxy would listen on IPv4 alone"),
    ],
)
def test_an_address_that_no_client_could_use_is_refused(address: str, bind: str, said: str) -> None:
    with pytest.raises(Refusal, match="set proxy_bind to an IPv4 address of the head") as refused:
        reached_at(address, bind)
    assert said in str(refused.value)


@pytest.mark.parametrize("topology", ["cluster", "replicas"])
def test_one_node_is_no_cluster(topology: str) -> None:
    with pytest.raises(Refusal, match="needs two nodes or more; the inventory has 1"):
        plan(1, topology=topology)


def test_a_recipe_runs_where_it_says() -> None:
    wanted = knobs(topology="cluster")
    solo_only = load_recipe(wanted.recipe).model_copy(update={"topologies": ("solo",)})
    with pytest.raises(Refusal, match=r"topology=cluster: the recipe .* runs in: solo"):
        make_plan(solo_only, wanted, nodes(2, wanted))


def test_a_subnet_has_room_for_every_node() -> None:
    with pytest.raises(Refusal, match="too small for 4 nodes"):
        plan(4, topology="replicas", fabric_subnets="10.1.0.0/28,10.1.1.0/28")


def test_secrets_are_in_no_planned_file() -> None:
    for each in plan(topology="cluster").nodes:
        files: list[File] = [file for service in each.services.values() for file in service.files]
        assert not [file.path for file in files if "secrets" in file.path]


@pytest.mark.parametrize(
    ("links", "rails"),
    [
        # One cable in port 0.
        (
            [("enP2p1s0f0np0", True), ("enP2p1s0f1np1", False), ("enp1s0f0np0", True), ("enp1s0f1np1", False)],
            ("enp1s0f0np0", "enP2p1s0f0np0"),
        ),
        # One cable in port 1.
        (
            [("enP2p1s0f0np0", False), ("enP2p1s0f1np1", True), ("enp1s0f0np0", False), ("enp1s0f1np1", True)],
            ("enp1s0f1np1", "enP2p1s0f1np1"),
        ),
        # Two cables: the twins of one port are enough.
        (
            [("enP2p1s0f0np0", True), ("enP2p1s0f1np1", True), ("enp1s0f0np0", True), ("enp1s0f1np1", True)],
            ("enp1s0f0np0", "enP2p1s0f0np0"),
        ),
        ([], ()),
    ],
)
def test_rails_are_the_twins_of_the_port_with_the_cable(links: list[tuple[str, bool]], rails: tuple[str, ...]) -> None:
    assert choose_rails([Link(name, carrier) for name, carrier in links]) == rails


@pytest.mark.parametrize(
    ("carrier", "addressed", "port"),
    [
        # The cable is out, or its other end trains: a fresh node would take port 0.
        ("", "", "f0np0"),
        ("", "f1np1", "f1np1"),
        # Two cables, one of them out.
        ("f1np1", "f0np0", "f0np0"),
        ("f0np0", "f1np1", "f1np1"),
        ("f0np0 f1np1", "f1np1", "f1np1"),
        ("f1np1", "", "f1np1"),
    ],
)
def test_rails_stay_on_the_port_that_has_their_addresses(carrier: str, addressed: str, port: str) -> None:
    names = ("enP2p1s0f0np0", "enP2p1s0f1np1", "enp1s0f0np0", "enp1s0f1np1")
    links = [Link(name, name[-5:] in carrier, addressed=name[-5:] in addressed) for name in names]
    assert choose_rails(links) == (f"enp1s0{port}", f"enP2p1s0{port}")


@pytest.mark.parametrize(
    ("addresses", "there"),
    [([], False), (["169.254.3.4/16", "192.168.178.12/24"], True), (["192.168.1.20/24"], False)],
)
def test_an_address_of_the_fabric_is_known_by_its_subnets(addresses: list[str], there: bool) -> None:
    assert on_fabric(addresses, knobs().rail_subnets) == there


def test_a_node_may_name_its_rails() -> None:
    assert choose_rails([Link("enp1s0f0np0", True)], ["eth1", "eth2"]) == ("eth1", "eth2")


def test_a_recipe_for_more_nodes_than_there_are_is_refused() -> None:
    wanted = knobs(topology="cluster")
    recipe = load_recipe(wanted.recipe).model_copy(update={"min_nodes": 4})
    with pytest.raises(Refusal, match="wants 4 nodes or more; the inventory has 2"):
        make_plan(recipe, wanted, nodes(2, wanted))
    assert engine_of(make_plan(recipe, wanted, nodes(4, wanted)).serving[3])


def test_an_archive_in_the_place_of_what_a_recipe_builds_is_refused() -> None:
    wanted = knobs(engine_image_from="archive:/srv/engine.tar")
    with pytest.raises(Refusal, match="builds its image, it has no name"):
        engine_image(load_recipe("nemotron-3-super-nvfp4-cutlass"), wanted)


def test_to_fall_back_to_one_node_a_recipe_must_run_in_solo() -> None:
    recipe = load_recipe(knobs().recipe).model_copy(update={"topologies": ("cluster",)})
    wanted = knobs(fallback="solo")
    with pytest.raises(Refusal, match=r"fallback=solo: the recipe .* runs in: cluster"):
        make_plan(recipe, wanted, nodes(2, wanted))
    assert FALLBACK not in make_plan(recipe, knobs(), nodes(2, wanted)).head.services


@pytest.mark.parametrize("topology", ["solo", "replicas"])
def test_only_a_cluster_falls_back(topology: str) -> None:
    assert plan(topology=topology, fallback="solo").nodes == plan(topology=topology).nodes


def test_what_serves_alone_is_one_engine_on_the_fabric_and_another_than_the_rank() -> None:
    of = plan(fallback="solo")
    for mine, address in zip(of.nodes, ("192.168.177.11", "192.168.177.12"), strict=True):
        files = {file.path.rpartition("/")[2]: file.content for file in mine.services[FALLBACK].files}
        assert f"--host {address} --port 8001 --tensor-parallel-size 1" in files["start.sh"]
        assert f'"spec": "{engine_of(mine).spec}"' in files["fallback.json"]
        assert engine_of(mine).spec not in files["run.sh"] and engine_of(mine).spec not in files["alone.conf"]
        assert engine_of(mine) == engine_of(plan().of(mine.node.name))


def test_each_node_is_a_target_where_its_exporter_listens() -> None:
    for topology, count in (("solo", 1), ("cluster", 2), ("replicas", 2)):
        of = plan(topology=topology, monitoring="metrics")
        found = targets(of.knobs, addresses_by_knobs(of.knobs, [mine.node.name for mine in of.nodes]))
        assert list(found) == [mine.node.name for mine in of.nodes if EXPORTER in mine.services] and len(found) == count
        for mine in of.serving:
            (settings,) = [
                json.loads(file.content) for file in mine.services[EXPORTER].files if file.path.endswith(".json")
            ]
            assert found[mine.node.name] == f"{settings['address']}:{settings['port']}"
    assert yaml.safe_load(scrape_config({"spark-1": "127.0.0.1:8020"}))["scrape_configs"][0]["static_configs"] == [
        {"targets": ["127.0.0.1:8020"], "labels": {"node": "spark-1"}}
    ]


def test_to_export_or_not_restarts_no_engine() -> None:
    before, after = plan(), plan(monitoring="metrics")
    assert specs(before) == specs(after) and EXPORTER not in before.head.services
    assert before.head.container(PROXY).spec == after.head.container(PROXY).spec
