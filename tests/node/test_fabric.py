"""The guard of a change to the network: what is confirmed stays, all else is taken back, and who asks is told which.

systemd and netplan are stand-ins that do nothing; the script that takes back is the real one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operations.node.network import rails


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A file that was there and one that was not, each with a new one beside it."""
    for name in ("systemctl", "systemd-run", "netplan"):
        stand_in(tmp_path, name)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("ARMED", "KEPT", "UNDO", "AT_BOOT"):
        monkeypatch.setattr(rails, name, tmp_path / "state" / name.lower())
    (tmp_path / "etc").mkdir()
    files = [tmp_path / "etc/rails.yaml", tmp_path / "etc/rails.conf"]
    files[0].write_text("old")
    for file in files:
        Path(f"{file}.pending").write_text("new")
    return [str(file) for file in files]


def stand_in(folder: Path, name: str, script: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def there(paths: list[str]) -> dict[str, str]:
    """Everything that lies beside the files, by name."""
    return {file.name: file.read_text() for file in Path(paths[0]).parent.iterdir()}


def guard() -> None:
    """What the timer does when its minute is over."""
    subprocess.run(["/bin/sh", str(rails.UNDO)], check=True)


def test_what_the_deploy_confirms_stays(paths: list[str]) -> None:
    assert rails.apply(paths) == {"problem": ""}
    assert rails.keep(paths) == {"kept": True}
    # The answer may be lost on its way: asked again, it is the same.
    assert rails.keep(paths) == {"kept": True}
    assert not rails.AT_BOOT.exists()
    # A timer that was stopped too late.
    guard()
    assert there(paths) == {"rails.yaml": "new", "rails.conf": "new"}


def test_what_the_guard_has_taken_back_is_not_called_kept(paths: list[str]) -> None:
    rails.apply(paths)
    guard()
    assert there(paths) == {"rails.yaml": "old"}
    assert rails.keep(paths) == {"kept": False}
    assert not rails.AT_BOOT.exists()


def test_a_change_that_was_never_confirmed_is_no_old_file_for_the_next(paths: list[str]) -> None:
    rails.apply(paths)
    for path in paths:
        Path(f"{path}.pending").write_text("newer")
    rails.apply(paths)
    guard()
    assert there(paths) == {"rails.yaml": "old"}


def test_a_confirmation_is_for_one_change(paths: list[str]) -> None:
    rails.apply(paths)
    rails.keep(paths)
    for path in paths:
        Path(f"{path}.pending").write_text("newer")
    rails.apply(paths)
    guard()
    assert there(paths) == {"rails.yaml": "new", "rails.conf": "new"}
    assert rails.keep(paths) == {"kept": False}


def test_what_netplan_refuses_is_taken_back_at_once(paths: list[str], tmp_path: Path) -> None:
    stand_in(tmp_path, "netplan", "exit 1")
    assert "it named no place" in rails.apply(paths)["problem"]
    assert there(paths) == {"rails.yaml": "old"}
    assert rails.keep(paths) == {"kept": False}


def kept_before(paths: list[str]) -> None:
    """An earlier deploy's change, confirmed; another one lies there to be made."""
    rails.apply(paths)
    rails.keep(paths)
    for path in paths:
        Path(f"{path}.pending").write_text("newer")


def test_a_change_that_never_reached_the_node_is_not_called_kept(paths: list[str]) -> None:
    kept_before(paths)
    assert rails.keep(paths) == {"kept": False, "waiting": True}


def test_a_change_whose_guard_can_t_be_armed_is_not_made(paths: list[str], tmp_path: Path) -> None:
    kept_before(paths)
    stand_in(tmp_path, "systemd-run", "echo the unit was already loaded >&2; exit 1")
    assert "already loaded" in rails.apply(paths)["problem"]
    assert rails.keep(paths) == {"kept": False, "waiting": True}
    assert there(paths) == dict.fromkeys(("rails.yaml", "rails.conf"), "new") | dict.fromkeys(
        ("rails.yaml.pending", "rails.conf.pending"), "newer"
    )
    # Nothing is left that would take back what was not made: no mark, and no unit for the next boot.
    assert not rails.ARMED.exists() and not rails.AT_BOOT.exists()


def test_what_breaks_off_before_the_new_files_are_there_is_not_called_kept(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_before(paths)

    def torn(_paths: list[str]) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(rails, "_write_undo", torn)
    with pytest.raises(OSError):
        rails.apply(paths)
    assert not rails.KEPT.exists()
    assert not rails.keep(paths)["kept"]


def test_while_a_change_is_being_made_its_guard_stays(paths: list[str]) -> None:
    """The connection broke, and the deploy asks while `apply` is between the guard and the new files."""
    rails.ARMED.parent.mkdir()
    rails.ARMED.touch()
    assert not rails.keep(paths)["kept"]
    assert rails.ARMED.exists()


def test_a_refusal_of_netplans_says_where_and_quotes_no_line_of_the_files(paths: list[str], tmp_path: Path) -> None:
    said = "/etc/netplan/50-wifi.yaml:7:21: Invalid YAML: inconsistent indentation:\n      password: s3cret\n      ^"
    (tmp_path / "said").write_text(said)
    stand_in(tmp_path, "netplan", f"cat {tmp_path}/said >&2; exit 1")
    problem = rails.apply(paths)["problem"]
    assert problem == "netplan refused the file, the old one is back: /etc/netplan/50-wifi.yaml:7:21: Invalid YAML"
