"""The command line of a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cables import Port
from tests.lab.qemu import command
from tests.lab.settings import LINKS, LabNode

NODE = LabNode(1)
TAPS = {link: number for number, link in enumerate(LINKS, start=20)}


@pytest.mark.parametrize(
    ("arch", "accelerator", "first"),
    [
        ("amd64", "tcg", "qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max"),
        ("arm64", "tcg", "qemu-system-aarch64 -M virt -accel tcg,thread=multi -cpu max,pauth-impdef=on"),
        ("amd64", "kvm", "qemu-system-x86_64 -M q35 -accel kvm -cpu host"),
    ],
)
def test_a_machine_of_an_architecture(arch: str, accelerator: str, first: str) -> None:
    argv = command.whole(NODE, arch, accelerator, Path("/k"), TAPS)
    assert " ".join(argv).startswith(first)
    # It ends where it would reboot, and its keeper begins it anew.
    assert "-no-reboot" in argv
    assert argv[argv.index("-m") + 1] == "5120M" and argv[argv.index("-smp") + 1] == "2"


def test_each_link_is_a_device_in_a_slot_of_its_own_and_comes_back_as_the_same() -> None:
    argv = command.whole(NODE, "amd64", "tcg", Path("/k"), TAPS)
    devices = [json.loads(word) for word in argv if word.startswith('{"driver": "virtio-net')]
    assert [each["id"] for each in devices] == list(LINKS)
    for each in devices:
        assert f"tap,id={each['netdev']},fd={TAPS[each['id']]}" in argv
        assert any(word.startswith(f"pcie-root-port,id={each['bus']},") for word in argv)
        assert each == command.device(Port(NODE, each["id"]))


def test_the_head_alone_has_the_disk_to_deploy_from_behind_its_own_and_can_t_write_it() -> None:
    def stores(node: LabNode) -> list[dict[str, Any]]:
        argv = command.whole(node, "amd64", "tcg", Path("/k"), TAPS)
        drives = [word.removeprefix("virtio-blk-pci,drive=") for word in argv if word.startswith("virtio-blk")]
        found = [json.loads(argv[at + 1]) for at, word in enumerate(argv) if word == "-blockdev"]
        assert drives == [each["node-name"] for each in found]
        return found

    own, shared = stores(LabNode(0))
    assert own["driver"] == "qcow2" and (shared["node-name"], shared["read-only"]) == ("artefacts", True)
    assert [each["node-name"] for each in stores(LabNode(1))] == ["disk"]


def test_no_two_netdevs_have_one_hardware_address() -> None:
    ports = [Port(LabNode(index), link) for index in range(9) for link in LINKS]
    assert len({command.mac(port) for port in ports}) == len(ports)


def test_a_folder_with_a_comma_is_no_option_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.settings.NODES", Path("/a,b"))
    argv = command.whole(NODE, "amd64", "tcg", Path("/k"), TAPS)
    (store,) = [json.loads(word) for word in argv if '"qcow2"' in word]
    assert store["file"]["filename"] == "/a,b/spark-2/disk.qcow2"
