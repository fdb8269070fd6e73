"""A model in GGUF, whole and not, as the store's proof sees it, and as it is fetched."""

from __future__ import annotations

import json
import struct
import threading
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import fetch, install, share
from operations.node.copy.source import Source
from operations.node.model import mend, proof
from operations.plan.recipes.formats import load_recipe
from tests.lab import gguf

FOLDER, REVISION = "models--org--model-gguf", "c" * 40


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """One in three parts, in a store."""
    place = tmp_path / "store" / FOLDER / "snapshots" / REVISION
    gguf.write(place, 3)
    return place


def problems(snapshot: Path) -> list[str]:
    return [each.text for each in proof.structure_problems(snapshot, "gguf")]


def test_a_whole_one_needs_no_configuration(snapshot: Path) -> None:
    assert problems(snapshot) == []
    assert any("config.json is missing" in each.text for each in proof.structure_problems(snapshot, "model"))


def test_a_part_that_is_missing_is_named(snapshot: Path) -> None:
    (snapshot / "tiny-llama-F32-00002-of-00003.gguf").unlink()
    assert problems(snapshot) == [f"{snapshot}/tiny-llama-F32-00002-of-00003.gguf is missing: the model has 3 parts"]


@pytest.mark.parametrize("of", [1, 2, 3])
def test_a_part_that_is_cut_is_named_with_its_bytes(snapshot: Path, of: int) -> None:
    file = snapshot / f"tiny-llama-F32-0000{of}-of-00003.gguf"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-64])
    assert problems(snapshot) == [f"{file} has {size - 64} bytes, its header says {size}"]


#: One value with an empty name in front of what a hostile file says.
ONE_VALUE = b"GGUF\x03\0\0\0" + struct.pack("<QQQ", 0, 1, 0)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"GGUF", b"<html>no such file</html>" * 9, b"GGUF\x03\0\0\0" + b"\xff" * 99),
        ONE_VALUE + struct.pack("<IQ", 8, (1 << 63) - 5),
        ONE_VALUE + struct.pack("<IIQ", 9, 4, 1 << 62),
        ONE_VALUE + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000,
    ],
)
def test_what_is_no_gguf_is_named(snapshot: Path, content: bytes) -> None:
    file = snapshot / "tiny-llama-F32-00001-of-00003.gguf"
    file.write_bytes(content)
    assert problems(snapshot) == [f"{file} is not a GGUF file ({len(content)} bytes)"]


def test_a_projector_alone_is_no_model(snapshot: Path) -> None:
    for file in snapshot.glob("*.gguf"):
        file.rename(snapshot / f"mmproj-{file.name[-6]}.gguf") if "00001" in file.name else file.unlink()
    assert problems(snapshot) == [f"{snapshot} has no model in GGUF (*.gguf)"]


def test_of_a_folder_the_files_that_are_named_are_taken_alone(tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "store"
    gguf.write(source)
    (source / "tiny-llama-Q2_K.gguf").write_bytes((source / gguf.NAME).read_bytes())
    told: Any = {"store": str(store), "folder": FOLDER, "revision": REVISION, "source": str(source), "kind": "gguf"}
    assert install.main(**told, only=["*-F32.gguf"]).get("done")
    snapshot = store / FOLDER / "snapshots" / REVISION
    assert [each.name for each in snapshot.iterdir()] == [gguf.NAME]
    # As the Hub names what lies in LFS.
    assert len(snapshot.joinpath(gguf.NAME).resolve().name) == 64
    answer = json.dumps(install.main(**told, only=["*Q8_0*.gguf"]))
    assert "has no file that is named *Q8_0*.gguf" in answer


ONLY = ["*-F32*.gguf", "*mmproj*.gguf"]


@pytest.fixture
def beside(snapshot: Path) -> Path:
    """The same, beside another quant whose download was broken off: a part lacks, one is cut, one leads nowhere."""
    (snapshot / "tiny-llama-Q8_0-00001-of-00004.gguf").write_bytes(b"GGUF")
    (snapshot / "tiny-llama-Q8_0-00002-of-00004.gguf").symlink_to("../../blobs/" + "0" * 64)
    return snapshot


@pytest.fixture(autouse=True)
def _proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")


def state(snapshot: Path, only: list[str], **told: Any) -> Any:
    return proof.main(str(snapshot.parents[2]), FOLDER, REVISION, "gguf", only, **told)


def test_another_quant_that_was_broken_off_is_no_matter_of_this_one(beside: Path) -> None:
    found = state(beside, ONLY, prove=True)
    assert found["problems"] == [] and found["proven"]
    assert sorted(found["files"]) == [f"tiny-llama-F32-0000{each}-of-00003.gguf" for each in (1, 2, 3)]
    assert len(state(beside, [])["problems"]) == 4
    assert mend.main(str(beside.parents[2]), FOLDER, REVISION, "gguf", ONLY) == {"aside": []}
    (beside / "tiny-llama-F32-00002-of-00003.gguf").unlink()
    lost = f"{beside}/tiny-llama-F32-00002-of-00003.gguf is missing: the model has 3 parts"
    assert state(beside, ONLY)["problems"] == [lost]


def test_a_quant_of_which_nothing_is_here_is_not_here(beside: Path) -> None:
    assert not state(beside, ["*Q4_K_M*.gguf"])["present"]


def test_each_quant_of_a_revision_keeps_its_proof_while_the_other_one_is_fetched(tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "store"
    gguf.write(source)
    (source / "tiny-llama-Q2_K.gguf").write_bytes((source / gguf.NAME).read_bytes())
    snapshot = store / FOLDER / "snapshots" / REVISION
    quants = (["*-F32.gguf"], ["*-Q2_K.gguf"])
    for only in quants:
        assert install.main(str(store), FOLDER, REVISION, str(source), "gguf", only=only).get("done")
    assert [state(snapshot, only)["proven"] for only in quants] == [True, True]
    # One that was proven and is gone is missed where it is wanted.
    (snapshot / "tiny-llama-Q2_K.gguf").unlink()
    (snapshot / "config.json").write_text("{}")
    assert state(snapshot, quants[0])["problems"] == []
    assert len(state(snapshot, ["*-Q2_K.gguf", "*.json"])["problems"]) == 2


def test_a_peer_is_given_the_files_that_are_wanted_alone(beside: Path, tmp_path: Path) -> None:
    """A worker copies from a head that has a broken quant beside this one."""
    shared = share.Shared(["127.0.0.1"], beside, only=ONLY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(share._Handler, shared))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in [each.name for each in beside.glob("*-F32-*")]:
        blob = proof.content_hash(beside / name, git=False)
        (beside / name).rename(beside / blob)
        (beside / name).symlink_to(blob)
    worker = tmp_path / "worker"
    place: Any = {"folder": FOLDER, "revision": REVISION, "kind": "gguf", "only": ONLY}
    told = fetch._model(Source(["127.0.0.1"], server.server_port), str(worker), **place)
    server.shutdown()
    server.server_close()
    assert told.get("done")
    assert sorted(each.name for each in (worker / FOLDER / "snapshots" / REVISION).iterdir()) == [
        f"tiny-llama-F32-0000{each}-of-00003.gguf" for each in (1, 2, 3)
    ]


def test_the_lab_s_recipe_names_what_makes_its_model() -> None:
    assert load_recipe("lab-tiny-gguf").model.revision == gguf.own_hash()
