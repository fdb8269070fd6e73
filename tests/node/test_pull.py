"""A pull that stands still is ended, said, and begun anew; one that unpacks is let be. Docker is a double here."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from operations.node import beats
from operations.node.copy import pull, silence

#: Knows no image, and pulls as the file `how` says: a word for each pull.
DOCKER = """\
#!/bin/sh
case "$1" in
  info) echo "$DOUBLE" ;;
  image) [ -e "$DOUBLE/here" ] && echo '[{"Id": "x"}]' || exit 1 ;;
  pull)
    how=$(head -n 1 "$DOUBLE/how"); sed -i 1d "$DOUBLE/how"; echo "$how $*" >>"$DOUBLE/said"
    mkdir -p "$DOUBLE/tmp"
    case "$how" in
      still) head -c 3000 /dev/zero >"$DOUBLE/tmp/GetImageBlob1"; exec sleep 40 ;;
      slow) for at in 1 2 3 4 5; do head -c ${at}000 /dev/zero >"$DOUBLE/tmp/GetImageBlob1"; sleep 1; done ;;
      refused) echo "Error response from daemon: pull access denied" >&2; exit 1 ;;
    esac ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the double, and a node that is otherwise at rest."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOUBLE", str(tmp_path))
    monkeypatch.setattr(pull, "SILENCE_S", 3)
    monkeypatch.setattr(beats, "watch", lambda *_: None)
    (tmp_path / "disks").write_text("")
    monkeypatch.setattr(silence, "DISKS", tmp_path / "disks")
    return tmp_path


def how(docker: Path, *each: str) -> None:
    (docker / "how").write_text("".join(f"{word}\n" for word in each))


def test_one_that_stands_still_is_begun_anew(docker: Path, capfd: pytest.CaptureFixture[str]) -> None:
    how(docker, "still", "whole")
    assert pull.main("registry.example/image@sha256:0")["done"]
    said = [json.loads(line).get("said") for line in capfd.readouterr().out.splitlines()]
    assert "nothing came for 3 s: begun anew" in said
    assert (docker / "said").read_text().split()[1:4] == ["pull", "--quiet", "registry.example/image@sha256:0"]


def test_three_times_are_enough(docker: Path) -> None:
    how(docker, "still", "still", "still")
    start = time.monotonic()
    assert "3 times in a row" in pull.main("image")["error"]
    assert time.monotonic() - start < 30


def test_one_that_comes_slowly_is_let_be(docker: Path) -> None:
    how(docker, "slow")
    assert pull.main("image")["done"]
    assert len((docker / "said").read_text().splitlines()) == 1


def test_one_that_unpacks_is_let_be(docker: Path) -> None:
    """Nothing comes, and the disk has work."""
    watch = silence.Silence(0, pull.LITTLE, 1000)
    (docker / "disks").write_text("259 0 nvme0n1 1 0 8 0 1 0 0 0\n")
    assert watch.look([], silence.written())
    watch = silence.Silence(0.2, pull.LITTLE, 1000)
    watch.look([], silence.written())
    for number in range(1, 5):
        time.sleep(0.1)
        (docker / "disks").write_text(f"259 0 nvme0n1 1 0 8 0 1 0 {number * 100_000} 0\n")
        assert not watch.look([], silence.written())


def test_a_refusal_is_docker_s_own_words_and_not_tried_again(docker: Path) -> None:
    how(docker, "refused", "whole")
    assert pull.main("image")["error"] == "Error response from daemon: pull access denied"


def test_a_name_without_a_digest_is_what_the_owner_has(docker: Path) -> None:
    (docker / "here").touch()
    assert pull.main("vllm-node", unless_here=True)["done"] and not (docker / "said").exists()
