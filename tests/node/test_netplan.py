"""What a node tells of netplan's files: who is given what, and nothing else that is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operations.node.network import netplan

WIFI = """\
network:
  renderer: NetworkManager
  wifis:
    wlan0:
      dhcp4: true
      access-points: {home: {password: "correct horse"}}
"""
ADDRESS = 'network:\n  ethernets:\n    "enp1s0f0np0":\n      addresses: [10.9.0.1/24]\n'
MATCH = (
    "network:\n  ethernets:\n    all:\n      match: {name: 'enp*', macaddress: 12:34:56:10:20:30}\n      dhcp4: yes\n"
)
BOND = "network:\n  ethernets: {a: {match: {driver: mlx5_core}}}\n  bonds: {bond0: {interfaces: [a, enp2s0]}}\n"
EMPTY = (
    "network:\n  version: 2\n  ethernets:\n    enp1s0f0np0: {link-local: [], addresses: [], dhcp4: false}\n    eth0:\n"
)
#: Files as NetworkManager of Ubuntu 24.04 saves them: of a profile for a device that netplan knew already.
KEYED = """\
network:
  version: 2
  ethernets:
    ens32:
      renderer: NetworkManager
      match: {}
      dhcp4: true
      networkmanager:
        uuid: "9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44"
        name: "netplan-ens32"
        passthrough:
          connection.timestamp: "1718633812"
          ipv6.method: "disabled"
          proxy._: ""
"""
#: ... of one that NetworkManager made itself, with its device in `match`;
NAMED = """\
network:
  version: 2
  ethernets:
    NM-9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44:
      renderer: NetworkManager
      match:
        name: "enP7s7"
      addresses:
      - "192.168.1.20/24"
      networkmanager:
        uuid: "9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44"
        name: "Desk"
        passthrough:
          connection.autoconnect-priority: "-999"
          proxy._: ""
"""
#: ... with its device in the profile alone;
PASSED = """\
network:
  version: 2
  ethernets:
    NM-9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44:
      renderer: NetworkManager
      match: {}
      dhcp4: true
      dhcp6: true
      networkmanager:
        uuid: "9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44"
        name: "Wired connection 1"
        passthrough:
          connection.interface-name: "enP7s7"
          connection.timestamp: "1718633812"
          proxy._: ""
"""
#: ... with none: it is for every wired device.
ANY = PASSED.replace('          connection.interface-name: "enP7s7"\n', "")


def told(folder: Path, text: str, name: str = "01.yaml") -> list[dict[str, object]]:
    (folder / name).write_text(text)
    return [{key: value for key, value in entry.items() if key != "file"} for entry in netplan.entries(folder)]


def test_quoted_names_and_matches_are_read(tmp_path: Path) -> None:
    assert told(tmp_path, ADDRESS) == [{"device": "enp1s0f0np0", "match": None, "gives": "an address"}]
    match = {"name": "enp*", "macaddress": "12:34:56:10:20:30"}
    assert told(tmp_path, MATCH) == [{"device": "all", "match": match, "gives": "an address"}]


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (KEYED, [("ens32", None)]),
        (NAMED, [("NM-9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44", {"name": "enP7s7"})]),
        (PASSED, [("enP7s7", None)]),
        (ANY, []),
        # By hand, without NetworkManager: it means every interface.
        ("network: {ethernets: {all: {match: {}, dhcp4: true}}}", [("all", {"name": "*"})]),
    ],
)
def test_an_empty_match_is_told_as_what_it_means(
    tmp_path: Path, text: str, selected: list[tuple[str, dict[str, str] | None]]
) -> None:
    assert [(entry["device"], entry["match"]) for entry in told(tmp_path, text)] == selected


def test_a_part_of_a_bond_is_named_with_it(tmp_path: Path) -> None:
    assert told(tmp_path, BOND) == [
        {"device": "a", "match": {"driver": "mlx5_core"}, "gives": "a place in bond0"},
        {"device": "enp2s0", "match": None, "gives": "a place in bond0"},
    ]


@pytest.mark.parametrize("text", [EMPTY, "", "network:\n", WIFI])
def test_what_is_given_nothing_is_not_told(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []


def test_tandem_s_own_file_is_not_told(tmp_path: Path) -> None:
    assert told(tmp_path, ADDRESS, "90-tandem-fabric.yaml") == []


@pytest.mark.parametrize(
    "text", [WIFI + "  ]", "network: [correct, horse]", WIFI.replace("wifis:", "ethernets: no\n  w:")]
)
def test_a_file_that_can_t_be_read_is_told_without_its_text(tmp_path: Path, text: str) -> None:
    (entry,) = told(tmp_path, text)
    assert entry["unread"]
    assert "horse" not in json.dumps(entry)


def test_without_a_reader_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netplan, "yaml", None)
    assert told(tmp_path, ADDRESS) == [{"unread": "python3-yaml is not there (apt install python3-yaml)"}]
