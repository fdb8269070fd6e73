"""All that Tandem has put on a node: counted, and removed without what is the owner's own. Docker is a double."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import marks, proof
from operations.node.unit import everything

OURS, THEIRS = "tandem/engine:0123456789ab", "vllm/vllm-openai:v0.30"


class DockerDouble:
    """Two images: one that Tandem has named beside its own name, and one that is the owner's."""

    def __init__(self, *, is_in_use: bool = False) -> None:
        self.removed: list[str] = []
        self._is_in_use = is_in_use

    def output(self, *argv: str, **_: Any) -> str:
        if argv[1] == "images":
            return f"{OURS}\n{THEIRS}\nollama/ollama:latest\n"
        assert argv[1] == "rmi"
        if self._is_in_use:
            return ""
        self.removed += argv[2:]
        return "Deleted"

    def inspect(self, _kind: str, *names: str) -> list[dict[str, Any]]:
        assert names == (OURS,)
        return [{"Id": "sha256:1", "RepoTags": [OURS, THEIRS], "RepoDigests": ["vllm@sha256:2"], "Size": 2 * 10**10}]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    files = {
        "etc/proxy/secrets/master.key": 10,
        "var/cache/kernels": 1000,
        "var/models/models--org--ours/1.json": 5,
        "hub/models--org--ours/blobs/a": 3000,
        "hub/models--org--theirs/blobs/a": 7000,
        "netplan.yaml": 7,
    }
    for name, size in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    link = tmp_path / "hub/models--org--ours/snapshots/1/a"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../blobs/a")
    monkeypatch.setattr(everything, "ETC", str(tmp_path / "etc"))
    monkeypatch.setattr(everything, "VAR", str(tmp_path / "var"))
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "var/models")
    monkeypatch.setattr(everything, "FABRIC", (str(tmp_path / "netplan.yaml"), str(tmp_path / "none")))
    yield tmp_path


def use(docker: DockerDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "output", docker.output)
    monkeypatch.setattr(everything, "docker_inspect", docker.inspect)


def test_it_is_listed_with_its_bytes_and_nothing_goes(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = DockerDouble()
    use(docker, monkeypatch)
    told = everything.main(str(node / "hub"))
    assert [thing["bytes"] for thing in told["things"]] == [20_000_000_000, 3000, 10, 1005, 7]
    assert THEIRS in told["things"][0]["what"] and "model org/ours in" in told["things"][1]["what"]
    assert docker.removed == [] and (node / "etc/proxy/secrets/master.key").exists()


def test_what_is_removed_is_tandem_s_and_the_owner_s_models_stay(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = DockerDouble()
    use(docker, monkeypatch)
    assert everything.main(str(node / "hub"), remove=True)["problems"] == []
    # Under a name that is left an image would stay.
    assert docker.removed == [OURS, THEIRS, "vllm@sha256:2"]
    assert sorted(str(each.relative_to(node)) for each in node.rglob("*") if each.is_file()) == [
        "hub/models--org--theirs/blobs/a"
    ]


def test_an_image_that_is_in_use_is_told(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(DockerDouble(is_in_use=True), monkeypatch)
    (problem,) = everything.main(str(node / "hub"), remove=True)["problems"]
    assert problem == f"{OURS} is still in use: docker ps --all --filter ancestor={OURS}"


def test_what_is_pinned_stays_and_is_told(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(DockerDouble(), monkeypatch)
    marks.put("models--org--ours", "1", marks.PINNED)
    told = everything.main(str(node / "hub"), remove=True)
    assert told["stays"] == [f"model org/ours in {node / 'hub'} stays: it is pinned"] and told["problems"] == []
    assert not [each for each in told["things"] if "org/ours" in each["what"]]
    assert (node / "hub/models--org--ours/snapshots/1/a").stat().st_size == 3000


@pytest.mark.parametrize("is_linked", [False, True])
def test_revisions_of_the_owner_s_and_what_other_models_link_to_stay(
    node: Path, monkeypatch: pytest.MonkeyPatch, is_linked: bool
) -> None:
    use(DockerDouble(), monkeypatch)
    marks.put("models--org--ours", "1", marks.BROUGHT)
    theirs = node / ("hub/models--org--theirs" if is_linked else "hub/models--org--ours") / "snapshots/2"
    theirs.mkdir(parents=True)
    (node / "hub/models--org--ours/blobs/b").write_bytes(b"y" * 40)
    (theirs / "b").symlink_to("../../../models--org--ours/blobs/b")
    told = everything.main(str(node / "hub"), remove=True)
    [line] = told["stays"]
    assert line.startswith(f"model org/ours in {node / 'hub'} stays but for what Tandem has fetched")
    words = f"revision 1 of model org/ours in {node / 'hub'}"
    assert {"what": words, "bytes": 3000} in told["things"] and told["problems"] == []
    assert (theirs / "b").read_bytes() == b"y" * 40
    assert not (node / "hub/models--org--ours/snapshots/1").exists()
    assert not (node / "hub/models--org--ours/blobs/a").exists()
