"""A model is whole, or every file that is not is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import mend, proof
from tests.lab import model
from tests.node.models import FOLDER, make

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    return make(tmp_path / "hub")


def state(snapshot: Path, *, prove: bool = False) -> Any:
    return proof.main(str(snapshot.parents[2]), FOLDER, model.revision(), prove=prove)


def blob(snapshot: Path, name: str) -> Path:
    return Path(os.path.realpath(snapshot / name))


def test_a_whole_model_is_proven_once(snapshot: Path) -> None:
    assert state(snapshot)["problems"] == []
    assert not state(snapshot)["proven"]
    assert state(snapshot, prove=True)["proven"]
    assert state(snapshot)["proven"]


def test_what_was_written_to_since_the_proof_is_named(snapshot: Path) -> None:
    assert state(snapshot)["touched"] == []
    state(snapshot, prove=True)
    os.utime(blob(snapshot, SHARD), (1, 1))
    assert state(snapshot)["touched"] == [SHARD]


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    assert not proof.main(str(tmp_path), FOLDER, model.revision())["present"]


def test_a_truncated_shard_is_seen_without_reading_it(snapshot: Path) -> None:
    shard = blob(snapshot, SHARD)
    os.truncate(shard, shard.stat().st_size - 1)
    (problem,) = state(snapshot)["problems"]
    assert SHARD in problem and "its header says" in problem


def test_a_dangling_link_is_named(snapshot: Path) -> None:
    blob(snapshot, SHARD).unlink()
    (problem,) = state(snapshot)["problems"]
    assert SHARD in problem and "is missing" in problem


def test_a_shard_of_the_index_that_is_missing_is_named(snapshot: Path) -> None:
    (snapshot / SHARD).unlink()
    (problem,) = state(snapshot)["problems"]
    assert problem.endswith(f"{SHARD} is missing: the index names it")


def test_no_config_is_named(snapshot: Path) -> None:
    (snapshot / "config.json").unlink()
    assert state(snapshot)["problems"] == [f"{snapshot}/config.json is missing"]


@pytest.mark.parametrize("name", [SHARD, "config.json"])
def test_a_flipped_byte_is_found_by_the_proof(snapshot: Path, name: str) -> None:
    file = blob(snapshot, name)
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    (problem,) = state(snapshot, prove=True)["problems"]
    assert name in problem and "not what its hash" in problem


def test_a_file_that_changed_since_the_proof_is_not_proven_any_more(snapshot: Path) -> None:
    state(snapshot, prove=True)
    file = blob(snapshot, "config.json")
    os.utime(file, (1, 1))
    assert not state(snapshot)["proven"]


def test_what_is_no_safetensors_file_is_named(snapshot: Path) -> None:
    blob(snapshot, SHARD).write_bytes(b"<html>")
    (problem,) = state(snapshot)["problems"]
    assert "is not a safetensors file (6 bytes)" in problem


def test_what_is_not_whole_is_set_aside_alone(snapshot: Path) -> None:
    shard, config = blob(snapshot, SHARD), blob(snapshot, "config.json")
    os.truncate(shard, shard.stat().st_size - 1)
    config.write_text("{}")
    aside = mend.main(str(snapshot.parents[2]), FOLDER, model.revision())["aside"]
    assert aside == ["config.json", SHARD]
    assert not shard.exists() and shard.with_name(f"{shard.name}.broken").exists()
    assert (snapshot / "tokenizer.json").exists()


def test_a_small_file_that_is_gone_since_the_proof_is_named(snapshot: Path) -> None:
    state(snapshot, prove=True)
    (snapshot / "tokenizer.json").unlink()
    (snapshot / SHARD).unlink()
    problems = state(snapshot)["problems"]
    assert [problem.partition(" is missing: ")[0] for problem in problems] == [
        str(snapshot / SHARD),
        str(snapshot / "tokenizer.json"),
    ]
    proof.expect_only(snapshot, proof.manifest(snapshot))
    assert [problem for problem in state(snapshot)["problems"] if "tokenizer" in problem] == []


@pytest.fixture
def shared_blob(snapshot: Path) -> Path:
    """The shard's blob, moved into the Hub client's store for all models: its name there is no hash of the content."""
    shard = blob(snapshot, SHARD)
    place = snapshot.parents[2] / "blobs/ab" / ("ab" * 32)
    place.parent.mkdir(parents=True)
    shard.rename(place)
    shard.symlink_to(os.path.relpath(place, shard.parent))
    return place


@pytest.mark.usefixtures("shared_blob")
def test_a_shared_blob_is_proven_by_the_name_that_the_model_has_for_it(snapshot: Path) -> None:
    assert state(snapshot, prove=True)["proven"]


def test_of_a_shared_blob_that_is_bad_only_the_link_is_set_aside(snapshot: Path, shared_blob: Path) -> None:
    content = bytearray(shared_blob.read_bytes())
    content[-1] ^= 1
    shared_blob.write_bytes(content)
    assert mend.main(str(snapshot.parents[2]), FOLDER, model.revision())["aside"] == [SHARD]
    assert shared_blob.exists() and not (snapshot / SHARD).exists()
