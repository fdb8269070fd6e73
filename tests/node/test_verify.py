"""`tandem verify` and `tandem prune`: what they look at on a node, and what they say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import proof, verify
from operations.node.unit import old_images
from operations.verbs.report import pruned_lines, verify_table
from operations.wire.model import Place
from tests.lab import model
from tests.node.models import FOLDER, make

PLACE: Place = {"folder": FOLDER, "revision": model.revision(), "kind": "model", "only": []}
SHARD = "model-00002-of-00002.safetensors"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole model, proven."""
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    found = make(tmp_path / "hub")
    assert verified(found, deep=True)["proven"]
    return found


def verified(snapshot: Path, *, deep: bool) -> Any:
    state: Any = verify.main(str(snapshot.parents[2]), [PLACE], deep)["models"][0]
    return state


def flip(file: Path) -> None:
    """One bit of the last byte, with the file's stamp as it was: what a bad disk does."""
    blob, stat = Path(os.path.realpath(file)), file.stat()
    with blob.open("r+b") as content:
        content.seek(-1, os.SEEK_END)
        last = content.read(1)[0]
        content.seek(-1, os.SEEK_END)
        content.write(bytes([last ^ 1]))
    os.utime(blob, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_deep_finds_what_stamps_can_t_show(snapshot: Path) -> None:
    flip(snapshot / SHARD)
    shallow = verified(snapshot, deep=False)
    assert shallow["problems"] == [] and shallow["proven"]
    deep = verified(snapshot, deep=True)
    assert len(deep["problems"]) == 1 and SHARD in deep["problems"][0]
    # It stays unproven, so that the next deploy fetches it.
    assert not verified(snapshot, deep=False)["proven"]


def test_deep_forgets_nothing_that_was_proven(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is what a unit waits for before it starts: a check that is broken off must not take it away."""

    def broken_off(*_: object) -> list[proof.Problem]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(proof, "prove_content", broken_off)
        with pytest.raises(KeyboardInterrupt):
            verified(snapshot, deep=True)
    assert verified(snapshot, deep=False)["proven"]
    # Nor which files there were.
    (snapshot / "tokenizer.json").unlink()
    problems = verified(snapshot, deep=True)["problems"]
    assert problems == [f"{snapshot}/tokenizer.json is missing: it was here when the revision was proven"]


def test_a_store_whose_path_has_a_blank_is_verified_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    snapshot = make(tmp_path / "my hub")
    assert verified(snapshot, deep=True)["proven"]
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "config.json").unlink()
    problems = verified(snapshot, deep=False)["problems"]
    # Each is named once: what the structure misses is not missed again by the proof.
    assert problems == [
        f"{snapshot}/config.json is missing",
        f"{snapshot}/tokenizer.json is missing: it was here when the revision was proven",
    ]


def test_a_whole_model_is_a_row_for_each_node(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = verified(snapshot, deep=True)
    assert not verify_table([model.REPO], {"spark-1": {"models": [state]}, "spark-2": {"models": [state]}})
    out = capsys.readouterr().out
    assert out.count("whole, every byte proven") == 2


def test_what_is_wrong_is_named_with_node_file_and_remedy(snapshot: Path) -> None:
    head = verified(snapshot, deep=True)
    other = {**head, "files": {**head["files"], SHARD: {"size": 1, "blob": "x"}}}
    absent = verify.main("/nowhere", [PLACE])
    answers: Any = {"spark-1": {"models": [head]}, "spark-2": {"models": [other]}, "spark-3": absent}
    told = verify_table([model.REPO], answers)
    assert f"spark-2: {SHARD} is not spark-1's" in told
    assert f"spark-3: /nowhere/{FOLDER}/snapshots/{model.revision()} is not there" in told
    assert not [line for line in told if line.startswith("spark-1")]


def test_what_a_unit_or_the_plan_names_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run.sh"
    run.write_text("exec docker run --entrypoint x tandem/engine:aaaaaaaaaaaa /tandem/start.sh\n")
    there = ["tandem/engine:aaaaaaaaaaaa", "tandem/engine:bbbbbbbbbbbb", "tandem/proxy:cccccccccccc", "vllm/vllm:1"]
    ran: list[tuple[str, ...]] = []

    def docker(*argv: str, **_: Any) -> str:
        ran.append(argv)
        return "\n".join(there) if argv[1] == "images" else "" if argv[2].startswith("tandem/proxy") else "Untagged"

    monkeypatch.setattr(old_images, "COMMANDS", str(tmp_path / "*.sh"))
    monkeypatch.setattr(old_images, "output", docker)
    monkeypatch.setattr(old_images, "docker_inspect", lambda *_: [{"Size": 4_000_000_000}])
    assert old_images.main([])["images"] == [
        {"name": "tandem/engine:bbbbbbbbbbbb", "mb": 4000},
        {"name": "tandem/proxy:cccccccccccc", "mb": 4000},
    ]
    assert len(ran) == 1, "nothing is removed without being asked"
    pruned = old_images.main(["tandem/engine:bbbbbbbbbbbb"], remove=True)
    assert pruned["removed"] == [] and "tandem/proxy:cccccccccccc is still in use" in pruned["problems"][0]
    lines = pruned_lines({"a": old_images.main([], remove=True), "b": {"images": [], "removed": [], "problems": []}})
    assert lines[0] == "a: removed tandem/engine:bbbbbbbbbbbb (4,000 MB)"
    assert lines[-1] == "b: every image of Tandem's is needed"
