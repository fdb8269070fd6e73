"""What loads Tandem's firewall, compares it and loads it again; and what a node says that it can."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from operations.node.look import status
from operations.node.network import firewall as on_node
from tests.node.firewall_site import GROUP, MOUNT, NEEDS, OFFICE, OFFICE_6, OTHERS, STRAY, Site, unified
from tests.plan.samples import ROOT

pytestmark = NEEDS


def test_a_change_by_any_hand_is_seen_and_a_second_load_is_the_same(site: Site) -> None:
    assert "has no table `tandem`" in site.sh("problem")
    site.sh("load")
    assert site.sh("problem") == ""
    before = site.node.run("nft", "--stateless", "list", "table", "inet", "tandem")
    site.office.ask([("tcp", OFFICE, 26001)])
    # What was counted is no change.
    assert site.sh("problem") == ""
    site.sh("load")
    assert site.node.run("nft", "--stateless", "list", "table", "inet", "tandem") == before
    site.node.run("nft", "insert", "rule", "inet", "tandem", "input", "accept")
    assert "not as planned" in site.sh("problem")
    site.sh("load")
    assert site.sh("problem") == ""
    site.node.run("nft", "delete", "table", "inet", "tandem")
    assert "has no table `tandem`" in site.sh("problem")
    site.sh("load")
    (site.firewall / "tandem.nft").write_text("# another plan\n")
    assert "not as planned" in site.sh("problem")


def test_by_which_interfaces_the_rules_in_force_let_in_is_read_and_one_more_is_a_change(site: Site) -> None:
    assert on_node.interfaces("") == []
    site.sh("load")
    before = on_node.interfaces(site.node.run(*on_node.INSIDE))
    assert "lo" in before
    site.node.run("nft", "add", "element", "inet", "tandem", "inside", '{ "enP2p1s0f1np1" }')
    assert sorted(on_node.interfaces(site.node.run(*on_node.INSIDE))) == sorted([*before, "enP2p1s0f1np1"])
    assert "not as planned" in site.sh("problem")


def test_before_a_start_it_is_loaded_again_and_a_start_waits_where_it_can_t_be(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in for systemctl, which does what the unit would.
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(
        f'#!/bin/sh\n[ "$*" = "reload-or-restart tandem-firewall.service" ] && {site.firewall}/firewall.sh load\n'
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert site.sh("raise") == ""
    assert site.sh("problem") == ""
    site.node.run("nft", "flush", "ruleset")
    assert site.sh("raise") == ""
    assert site.reach(STRAY, OFFICE, OFFICE_6) == set()
    site.node.run("nft", "flush", "ruleset")
    systemctl.write_text("#!/bin/sh\necho no; exit 1\n")
    why = "Tandem's firewall is not in force: nftables has no table `tandem` (systemctl status tandem-firewall)\n"
    assert site.sh("raise") == why
    # The owner's own, which the flush has taken as well.
    subprocess.run(site.node.argv("nft", "--file", "-"), input=OTHERS, text=True, check=True)


def test_a_table_that_another_version_has_loaded_stays_with_its_routes(site: Site) -> None:
    """A unit that is called otherwise there is removed behind the load, and its stop comes then."""
    site.sh("load")
    here = site.node.run("ip", "route", "show", "table", "all")
    rules = site.firewall / "tandem.nft"
    rules.write_text(rules.read_text().replace('comment "', 'comment "this-'))
    site.sh("drop")
    assert 'comment "' in site.node.run("nft", "list", "table", "inet", "tandem")
    assert site.node.run("ip", "route", "show", "table", "all") == here
    site.node.run("nft", "delete", "table", "inet", "tandem")


def test_rules_that_nft_refuses_leave_those_in_force(site: Site) -> None:
    site.sh("load")
    rules = site.firewall / "tandem.nft"
    good = rules.read_text()
    rules.write_text(good.replace(GROUP, "not-there.slice"))
    site.sh("load", check=False)
    assert site.reach(STRAY, OFFICE, OFFICE_6) == set()
    rules.write_text(good)
    assert site.sh("problem") == ""


def test_a_control_group_that_was_made_anew_is_a_change(site: Site) -> None:
    """A rule holds the number of the group; under the same name another group is another number."""
    other = unified() / f"firewall-other-{os.getpid()}.slice"
    rules = site.firewall / "tandem.nft"
    rules.write_text(rules.read_text().replace(GROUP, other.name))
    other.mkdir()
    try:
        site.sh("load")
        assert site.sh("problem") == ""
        other.rmdir()
        other.mkdir()
        assert "not as planned" in site.sh("problem")
    finally:
        other.rmdir()


def test_the_node_says_what_it_can() -> None:
    unified()
    program = "import json; from operations.node.network import firewall; print(json.dumps(firewall.able()))"
    argv = ["unshare", "--mount", "sh", "-c", f"{MOUNT} && exec python3 -c '{program}'"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == '{"nft": true, "groups": true}\n', done.stderr


def test_a_node_without_what_it_takes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "CGROUPS", tmp_path)
    assert on_node.able() == {"nft": True, "groups": False}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert on_node.able() == {"nft": False, "groups": False}
    assert on_node.state() == {"problem": "no firewall of Tandem's is here"}


def test_status_says_whether_it_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    state: Any = {"ActiveState": "active", "SubState": "exited"}
    for problem, health in (("", "in force"), ("it is not as planned", "it is not as planned")):
        monkeypatch.setattr(on_node, "state", lambda problem=problem: {"problem": problem})
        assert status._row("tandem-firewall", state)["health"] == health
