"""The node programs that need no node."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from operations.node import archive, files, links, secrets, services


def test_a_secret_is_made_once_with_mode_600(tmp_path: Path) -> None:
    path = tmp_path / "secrets/key"
    first = secrets.main(str(path), make=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secrets.main(str(path), make=True) == first
    assert path.read_text().startswith("sk-") and len(path.read_text()) > 40


def test_no_secret_has_no_hash(tmp_path: Path) -> None:
    assert secrets.main(str(tmp_path / "none")) == {"hash": "", "mode": ""}


def test_files_by_content_and_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/stray").write_text("")
    found = files.main([str(tmp_path / "a"), str(tmp_path / "none")], [str(tmp_path / "folder")], contents=True)
    assert set(found) == {str(tmp_path / "a"), str(tmp_path / "folder/stray")}
    assert found[str(tmp_path / "a")]["text"] == "text"


def image(**changes: Any) -> dict[str, Any]:
    config = {"Env": ["A=1"], "Cmd": None, "Entrypoint": ["run"]}
    return {"Id": "1", "Architecture": "arm64", "Config": config, "RootFS": {"Layers": ["sha256:1"]}} | changes


def test_content_is_equal_where_the_image_id_is_not() -> None:
    assert services.content_id(image(Id="2", Config={"Env": ["A=1"], "Cmd": [], "Entrypoint": ["run"]})) == (
        services.content_id(image())
    )


@pytest.mark.parametrize(
    "changes", [{"RootFS": {"Layers": ["sha256:2"]}}, {"Architecture": "amd64"}, {"Config": {"Env": ["A=2"]}}]
)
def test_another_content_is_another(changes: dict[str, Any]) -> None:
    assert services.content_id(image(**changes)) != services.content_id(image())


def save(path: Path, members: dict[str, Any]) -> str:
    with tarfile.open(path, "w") as out:
        for name, value in members.items():
            content = json.dumps(value).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    return str(path)


def test_an_archive_is_judged_without_loading_it(tmp_path: Path) -> None:
    manifest = [{"Config": "config.json", "RepoTags": ["engine:1"]}]
    good = save(tmp_path / "good.tar", {"manifest.json": manifest, "config.json": {"architecture": "arm64"}})
    assert archive.problem(good, "engine:1", "aarch64") == ""
    assert "is for arm64, this node is amd64" in archive.problem(good, "engine:1", "x86_64")
    assert "holds engine:1, not engine:2" in archive.problem(good, "engine:2", "aarch64")
    other = save(tmp_path / "other.tar", {"readme": "hello"})
    assert "is no image archive" in archive.problem(other, "engine:1", "aarch64")
    (tmp_path / "text.tar").write_text("hello")
    assert "is no image archive" in archive.problem(str(tmp_path / "text.tar"), "engine:1", "aarch64")
    assert "is not there" in archive.problem(str(tmp_path / "none.tar"), "engine:1", "aarch64")


def test_rails_with_their_rdma_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake sysfs: no machine here has RDMA. It holds what the program reads of a DGX Spark's."""
    for name, rdma in (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0")):
        device = tmp_path / "devices" / name
        (device / "infiniband" / rdma).mkdir(parents=True)
        driver = tmp_path / "drivers/mlx5_core"
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(driver)
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "device").symlink_to(device)
        (tmp_path / "net" / name / "carrier").write_text("1\n")
    for name in ("enP7s7", "wlP9s9", "docker0", "enp3s0f0np0"):
        (tmp_path / "net" / name).mkdir(parents=True)
    other = tmp_path / "drivers/bnxt_en"
    other.mkdir()
    (tmp_path / "devices/other").mkdir()
    (tmp_path / "devices/other/driver").symlink_to(other)
    (tmp_path / "net/enp3s0f0np0/device").symlink_to(tmp_path / "devices/other")
    monkeypatch.setattr(links, "NET", tmp_path / "net")
    monkeypatch.setattr(links, "output", lambda *_: "[]")
    found = links.links()
    assert {name: link["rdma"] for name, link in found.items()} == {
        "enp1s0f0np0": "rocep1s0f0",
        "enP2p1s0f0np0": "roceP2p1s0f0",
    }
