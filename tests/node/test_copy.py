"""Model copies between two stores over loopback: the real share and fetch programs, and what breaks them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import fetch, install
from operations.node.copy import share as serving
from operations.node.look import survey
from operations.node.model import mend, proof
from operations.wire.model import Place
from tests.lab import model
from tests.node.models import FOLDER, make, shared

SHARD = "model-00001-of-00002.safetensors"
PORT = 26987
#: What a look says of files that are not in the store.
ABSENT: Any = {"present": False, "problems": []}


@pytest.fixture(autouse=True)
def _proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make(tmp_path / "source")


@pytest.fixture
def share(source: Path) -> Iterator[None]:
    with shared(PORT, str(source.parents[2]), folder=FOLDER, revision=model.revision()):
        yield


def copy(store: Path) -> Any:
    return fetch.main("model", ["127.0.0.1"], PORT, str(store), folder=FOLDER, revision=model.revision())


def snapshot_in(store: Path) -> Path:
    return store / FOLDER / "snapshots" / model.revision()


def whole(store: Path) -> bool:
    state = proof.main(str(store), FOLDER, model.revision(), prove=True)
    return bool(state["present"] and state["proven"] and not state["problems"])


@pytest.mark.usefixtures("share")
def test_a_copy_is_whole_and_the_second_moves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert copy(store)["done"]
    assert whole(store)
    assert copy(store)["bytes"] == 0


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("cut", [0, 1, 1000])
def test_a_copy_goes_on_where_it_broke_off(tmp_path: Path, source: Path, cut: int) -> None:
    store = tmp_path / "store"
    blob = Path(os.path.realpath(source / SHARD))
    part = store / FOLDER / "blobs" / f"{blob.name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(blob.read_bytes()[:-cut] if cut else blob.read_bytes())
    answer = copy(store)
    assert answer["done"] and whole(store)
    total = sum(file.stat().st_size for file in source.iterdir())
    size = blob.stat().st_size
    # Whole blocks are kept.
    again = (size - cut) % 4096 + cut if cut else 0
    assert answer["bytes"] == total - size + again


@pytest.mark.usefixtures("share")
def test_a_bad_beginning_is_thrown_away_and_fetched_again(tmp_path: Path, source: Path) -> None:
    store = tmp_path / "store"
    blob = Path(os.path.realpath(source / SHARD))
    part = store / FOLDER / "blobs" / f"{blob.name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * 8192)
    answer = copy(store)
    assert answer["done"] and whole(store)
    assert answer["bytes"] == sum(file.stat().st_size for file in source.iterdir()) + blob.stat().st_size - 8192


@pytest.mark.usefixtures("share")
def test_a_byte_flipped_on_the_source_never_gets_a_good_name(tmp_path: Path, source: Path) -> None:
    store = tmp_path / "store"
    blob = Path(os.path.realpath(source / SHARD))
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    assert "another hash" in copy(store)["error"]
    assert not (snapshot_in(store) / SHARD).exists()


@pytest.mark.usefixtures("share")
def test_a_truncated_shard_is_fetched_again_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    copy(store)
    blob = Path(os.path.realpath(snapshot_in(store) / SHARD))
    size = blob.stat().st_size
    os.truncate(blob, size // 2)
    assert copy(store)["bytes"] == size
    assert whole(store)
    assert not list(blob.parent.glob("*.broken"))


@pytest.mark.usefixtures("share")
def test_a_bit_that_flipped_on_the_target_is_fetched_again_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    copy(store)
    blob = Path(os.path.realpath(snapshot_in(store) / SHARD))
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    assert copy(store)["bytes"] == len(content)
    assert whole(store)
    assert not list(blob.parent.glob("*.broken"))


def test_nobody_there_is_an_error_and_not_a_traceback(tmp_path: Path) -> None:
    assert "error" in copy(tmp_path / "store")


@pytest.mark.parametrize("layout", ["cache", "plain"])
def test_a_model_is_installed_from_a_folder(tmp_path: Path, source: Path, layout: str) -> None:
    folder = source.parents[2] if layout == "cache" else source
    store = tmp_path / "store"
    answer = install.main(str(store), FOLDER, model.revision(), str(folder))
    assert answer["done"] and answer["bytes"] == answer["of"] == sum(file.stat().st_size for file in source.iterdir())
    assert whole(store)
    assert (store / FOLDER / "refs/main").read_text() == model.revision()


def flip(file: Path) -> None:
    """Its last byte becomes another one."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", [SHARD, "tokenizer.json"])
def test_a_blank_in_the_store_s_path_hides_nothing_from_an_install(tmp_path: Path, source: Path, name: str) -> None:
    store = tmp_path / "my models"
    assert install.main(str(store), FOLDER, model.revision(), str(source))["done"]
    blob = Path(os.path.realpath(snapshot_in(store) / name))
    flip(blob)
    answer = install.main(str(store), FOLDER, model.revision(), str(source))
    assert answer.get("done") and answer["bytes"] == (source / name).stat().st_size
    assert whole(store)


@pytest.mark.usefixtures("share")
def test_a_blank_in_the_store_s_path_hides_nothing_from_a_copy(tmp_path: Path, source: Path) -> None:
    store = tmp_path / "my models"
    assert copy(store)["done"]
    blob = Path(os.path.realpath(snapshot_in(store) / SHARD))
    os.truncate(blob, blob.stat().st_size - 1)
    assert copy(store).get("bytes") == (source / SHARD).stat().st_size
    assert whole(store)


def test_a_blank_in_the_store_s_path_hides_nothing_from_a_mend(tmp_path: Path) -> None:
    snapshot = make(tmp_path / "my models")
    flip(Path(os.path.realpath(snapshot / SHARD)))
    config = Path(os.path.realpath(snapshot / "config.json"))
    config.write_text("{}")
    assert mend.main(str(snapshot.parents[2]), FOLDER, model.revision())["aside"] == ["config.json", SHARD]
    assert not config.exists() and not (snapshot / SHARD).exists()


def test_a_source_that_is_not_whole_is_told_in_words(source: Path) -> None:
    (source / SHARD).unlink()
    look: dict[str, Place] = {"m": {"folder": FOLDER, "revision": model.revision(), "kind": "model", "only": []}}
    comes: Any = {"m": {"source": str(source.parents[2]), "plain": True}}
    assert survey._source_problems(comes, look, {"m": ABSENT}) == [f"{source / SHARD} is missing: the index names it"]


def test_a_folder_with_the_model_s_own_files_is_no_draft_s(source: Path) -> None:
    draft: Place = {"folder": "models--org--draft", "revision": "d" * 40, "kind": "model", "only": []}
    look: dict[str, Place] = {"m": {"folder": FOLDER, "revision": "e" * 40, "kind": "model", "only": []}, "d": draft}
    comes: Any = {"m": {"source": str(source), "plain": True}, "d": {"source": str(source), "plain": False}}
    problems = survey._source_problems(comes, look, {"m": ABSENT, "d": ABSENT})
    assert problems == [f"{source} has no models--org--draft at {'d' * 40}"]


def test_it_is_served_at_once_where_no_dns_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("it asks DNS"))
    serving.serve(["127.0.0.1"], 0, serving.Shared([], tmp_path))
