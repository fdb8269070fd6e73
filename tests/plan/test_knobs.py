"""Every knob that can't be is refused in one message that names it, what was expected and the remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from operations.plan.config.knob_fields import SET
from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.config.refusal import Refusal
from operations.plan.wanted import group_data
from tests.plan.samples import knob_data

WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"topolgy": "solo"}, ["no knob is named `topolgy`", "did you mean `topology`?"]),
    ({"quux": 1}, ["no knob is named `quux`", "the knobs are: recipe, topology"]),
    ({"topology": "duo"}, ["topology=duo", "expected one of: solo, cluster, replicas"]),
    ({"executor": "dask"}, ["executor=dask", "expected one of: ray, mp"]),
    ({"pipeline_parallel": 0}, ["pipeline_parallel=0", "greater than or equal to 1"]),
    ({"pipeline_parallel": "two"}, ["pipeline_parallel='two'", "change `pipeline_parallel` in group_data/all.py, or"]),
    ({"pipeline_parallel": 1.5}, ["pipeline_parallel=1.5"]),
    ({"pipeline_parallel": True}, ["pipeline_parallel=True"]),
    ({"routing": "round-robin"}, ["routing=round-robin", "simple-shuffle, balanced, least-busy"]),
    ({"proxy_port": "8000"}, ["proxy_port='8000'"]),
    ({"proxy_port": 0}, ["proxy_port=0"]),
    ({"proxy_port": 443}, ["proxy_port=443", "ports below 1024 are root's, and the proxy runs without it"]),
    ({"proxy_port": 8001}, ["proxy_port and engine_port are both 8001"]),
    ({"engine_port": 26005}, ["engine_port lies within the 300 ports"]),
    (
        {"proxy_bind": "office"},
        ["proxy_bind=office", "loopback, management, all, or an IPv4 address of the head"],
    ),
    (
        {"proxy_address": "office"},
        ["proxy_address=office", "an IPv4 address of your network that nobody has"],
    ),
    ({"fabric_subnets": "10.1.0.0/24"}, ["expected two subnets"]),
    ({"fabric_subnets": "10.1.0.0/24,10.1.0.0/24"}, ["both rails in one subnet"]),
    ({"fabric_subnets": "10.1.0.0/16,10.1.7.0/24"}, ["both rails in one subnet"]),
    ({"fabric_subnets": "10.1.0.0/30,10.1.1.0/30"}, ["/28 or wider"]),
    ({"fabric_subnets": "rail"}, ["fabric_subnets=rail", "expected two networks, one for each rail, as in 1"]),
    ({"fabric_mtu": 90000}, ["fabric_mtu=90000"]),
    ({"engine_image_from": "archive"}, ["engine_image_from=archive", "`archive:/path/on/the/head.tar`"]),
    ({"proxy_image_from": "docker.io"}, ["proxy_image_from=docker.io"]),
    ({"model_from": "models"}, ["model_from=models", "`hub`, or an absolute path"]),
    ({"model_store": "models"}, ["model_store=models"]),
    ({"accept_risk": ["ShadowRay"]}, ["accept_risk=['ShadowRay']", 'names of advisories: ["CVE-2026-12345"']),
    ({"accept_risk": "CVE-2026-1 CVE-2026-2"}, ["accept_risk='CVE-2026-1 CVE-2026-2'"]),
    ({"accept_risk": 7}, ["accept_risk=7", "all.py, or for one run `tandem apply accept_risk=VALUE`"]),
    ({"media_domains": ["https://example.org/"]}, ["media_domains=", 'names of hosts, in small letters: ["images.']),
    ({"model_revision": "main"}, ["model_revision=main", "expected a commit of the model's repository"]),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_knob_is_named_with_its_remedy(changes: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(Refusal) as refused:
        read_knobs(knob_data(**changes))
    for words in said:
        assert words in str(refused.value)


@pytest.mark.parametrize("given", [["CVE-2026-48746", "GHSA-94f4-hr76-p5j6"], "CVE-2026-48746, GHSA-94f4-hr76-p5j6"])
def test_accepted_risks_are_a_list_or_words_for_one_run(given: Any) -> None:
    assert read_knobs(knob_data(accept_risk=given)).accept_risk == ("CVE-2026-48746", "GHSA-94f4-hr76-p5j6")
    assert read_knobs(knob_data(accept_risk="")).accept_risk == ()


def test_all_wrong_knobs_are_named_at_once() -> None:
    with pytest.raises(Refusal) as refused:
        read_knobs(knob_data(topology="duo", executor="dask", colour="red"))
    assert [finding.problem.split("=")[0] for finding in refused.value.findings] == [
        "no knob is named `colour`",
        "topology",
        "executor",
    ]


def test_what_is_not_set_has_its_default() -> None:
    assert read_knobs({"topology": "solo"}) == Knobs(topology="solo")


def test_the_defaults_pass_the_rules_that_hold_between_knobs() -> None:
    assert read_knobs(Knobs().model_dump() | {"alarms": []}) == Knobs()


def test_connector_and_node_data_are_no_knobs() -> None:
    read_knobs(knob_data(ssh_user="spark", _sudo=True, fabric_interfaces=["a", "b"]))


def test_what_is_shipped_sets_what_an_owner_edits_first_to_its_default() -> None:
    shipped = group_data()
    assert set(shipped) == set(SET)
    assert read_knobs(shipped) == Knobs()


@pytest.mark.parametrize("knob", ["litellm_ports", "page_port"])
def test_one_of_an_older_version_is_said_to_be_needed_no_more(knob: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_knobs({knob: 8010})
    assert f"no knob is named `{knob}`" in str(refused.value) and "on sockets now" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "said", "remedy"),
    [
        (
            {"topology": "solos"},
            "topology=solos: expected",
            "`topology` in group_data/all.py, or .*`tandem apply topology=solo`",
        ),
        ({"swap": False}, "swap=False: expected", "`tandem apply swap=off`"),
        ({"monitoring": "none"}, "monitoring=none: expected", "`tandem apply monitoring=VALUE`"),
        ({"tls": "slef"}, "tls=slef: expected off, self, or files:CERTIFICATE,KEY", "`tandem apply tls=VALUE`"),
        ({"proxy_bind": "lan"}, "proxy_bind=lan: expected", "`tandem apply proxy_bind=VALUE`"),
        ({"proxy_port": 443}, "proxy_port=443: ports", "`proxy_port` in .*`tandem apply proxy_port=8000`"),
        ({"proxy_port": "8000"}, "proxy_port='8000': ", "`tandem apply proxy_port=8000`"),
        ({"model_store": "my models"}, "model_store='my models': ", "`tandem apply model_store="),
        ({"model_revision": "main"}, "model_revision=main: ", "`tandem apply model_revision=VALUE`"),
        ({"model_revisions": {"org/m": "main"}}, "model_revisions={", "change `model_revisions` in group_data/all.py$"),
        ({"alarms": 7}, "alarms: ", "change `alarms` in group_data/all.py$"),
    ],
)
def test_a_wrong_value_is_told_as_it_is_typed_with_both_ways_to_say_it(
    wrong: dict[str, Any], said: str, remedy: str
) -> None:
    with pytest.raises(Refusal) as refused:
        read_knobs(knob_data(**wrong))
    [finding] = refused.value.findings
    assert finding.where == "knob" and finding.problem.startswith(said)
    assert re.search(remedy, finding.remedy), finding.remedy


def test_one_of_a_model_is_typed_with_its_model() -> None:
    with pytest.raises(Refusal, match=r"`tandem apply models\.chat\.topology=solo`"):
        read_knobs(knob_data(topology="solos"), "models.chat.")
