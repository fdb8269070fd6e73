"""Downloads with the Hub's real client from a Hub that fails: what is said, what is left, and the next run.

The client runs in this Python instead of the engine's container; the lab's tests run it there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from operations.node.copy import hub
from operations.node.model import marks, proof
from tests.lab.hub import Hub, serve
from tests.node.models import FOLDER, REVISION, make_shards
from tests.node.test_faults import assert_clean

PORT, REPO = 26970, "tandem-lab/tiny-llama"
#: The client writes pieces of 10 MB: what it resumes has to be larger.
SHARDS, SHARD_BYTES = 3, 22_000_000
SCRIPT = (Path(__file__).parents[2] / "files/model/download.py").read_text()


class FaultyHub(Hub):
    """Does what `fault` says: `metadata` or `file`, and how; `spent` counts how often it did."""

    fault: ClassVar[tuple[str, str]] = ("", "")
    times: ClassVar[int] = 10**9
    asked_from: ClassVar[list[int]] = []
    sent: ClassVar[list[str]] = []

    def _metadata(self, *arguments: str) -> None:
        if not self._fails("metadata"):
            super()._metadata(*arguments)

    def _file(self, repo: str, revision: str, name: str) -> None:
        if self.command == "GET":
            type(self).sent.append(name)
        if self.command == "GET" and name.endswith("-1.safetensors"):
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
            type(self).asked_from.append(start)
            if self._fails("file"):
                return
        super()._file(repo, revision, name)

    def _fails(self, where: str) -> bool:
        kind = type(self)
        if kind.fault[0] != where or kind.times <= 0:
            return False
        kind.times -= 1
        match kind.fault[1]:
            case "gated":
                self._refuse(403, "GatedRepo", "Access to this model is restricted")
            case "no repo":
                self._refuse(404, "RepoNotFound", "Repository not found")
            case "no revision":
                self._refuse(404, "RevisionNotFound", "Invalid rev id")
            case "half":
                self._cut = True
                return False
            case "other":
                self._flipped = True
                return False
            case "still":
                self._cut = self._still = True
                return False
            case status:
                self._refuse(int(status), "", f"the test says {status}")
        return True

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if getattr(self, "_flipped", False):
            body = bytes([body[0] ^ 1]) + body[1:]
        if not getattr(self, "_cut", False):
            super()._answer(status, body, headers)
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        if getattr(self, "_still", False):
            self.wfile.flush()
            time.sleep(8)
        self.close_connection = True


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A worker's empty store, and a Hub with a model."""
    monkeypatch.setattr(proof, "PROVEN", tmp_path / "proven")
    monkeypatch.setattr(hub, "command", lambda argv, settings: ["env", *settings, sys.executable, "-c", SCRIPT, *argv])
    monkeypatch.setattr(hub, "PAUSES_S", (0, 0))
    monkeypatch.setattr(hub, "remove", lambda: None)
    for name, value in {
        "HF_ENDPOINT": f"http://127.0.0.1:{PORT}",
        "HF_HUB_CACHE": str(tmp_path / "store"),
        "HF_HUB_DISABLE_SHARED_BLOBS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }.items():
        monkeypatch.setenv(name, value)
    make_shards(tmp_path / "source", SHARDS, SHARD_BYTES)
    FaultyHub.fault, FaultyHub.times, FaultyHub.asked_from, FaultyHub.sent = ("", ""), 10**9, [], []
    server = serve(tmp_path / "source", PORT, address="127.0.0.1", kind=FaultyHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path / "store"
    server.shutdown()
    server.server_close()


def download(store: Path) -> Any:
    """A download to its end."""
    return hub.main([REPO, REVISION], str(store), FOLDER, REVISION, str(store.parent))


def assert_whole(store: Path) -> None:
    """All of it, good, and proven."""
    assert_clean(store)
    state = proof.main(str(store), FOLDER, REVISION)
    assert state["proven"] and not state["problems"] and len(state["files"]) == SHARDS + 1


def test_a_download_is_whole_and_the_second_moves_nothing(store: Path) -> None:
    done = download(store)
    assert done.get("done"), done
    assert done["of"] > SHARDS * SHARD_BYTES and done["limit"] == "Hub"
    assert_whole(store)
    assert download(store)["of"] == 0


REFUSALS = [
    ("metadata", "401", "answered 401 for tandem-lab/tiny-llama: the token in `hub_token_file` may not read it"),
    ("metadata", "gated", "is gated: accept its terms"),
    ("metadata", "403", "answered 403"),
    ("metadata", "no repo", "the Hub has no tandem-lab/tiny-llama"),
    ("metadata", "no revision", "has no revision"),
    ("metadata", "429", "429"),
    ("metadata", "500", "500"),
    ("file", "403", "403"),
    ("file", "404", "404"),
    ("file", "500", "500"),
    ("file", "half", "goes on from there"),
    ("file", "other", "what came is not what the Hub has: model-1.safetensors"),
]


@pytest.mark.parametrize(("where", "how", "said"), REFUSALS)
def test_a_hub_that_fails_is_named_and_the_next_run_finishes(store: Path, where: str, how: str, said: str) -> None:
    FaultyHub.fault = (where, how)
    answer = download(store)
    assert said in answer.get("error", ""), answer
    assert "Traceback" not in answer["error"]
    assert_clean(store)
    FaultyHub.fault = ("", "")
    assert download(store).get("done")
    assert_whole(store)


def test_a_download_that_broke_off_goes_on_where_it_was(store: Path) -> None:
    FaultyHub.fault, FaultyHub.times = ("file", "half"), 1
    assert download(store).get("done")
    assert_whole(store)
    assert FaultyHub.asked_from[0] == 0 and FaultyHub.asked_from[1] >= 10_000_000, FaultyHub.asked_from


def test_what_a_killed_client_has_left_is_taken_away(store: Path) -> None:
    """The client never goes on with such files of an earlier process; one that is open is somebody's."""
    blobs = store / FOLDER / "blobs"
    blobs.mkdir(parents=True)
    left, open_one, older = (blobs / f"{'a' * 64}.{name}incomplete" for name in ("0123abcd.", "4567cdef.", ""))
    for file in (left, open_one, older):
        file.write_bytes(b"begun")
    with open_one.open("rb"):
        assert download(store).get("done")
    assert not left.exists() and open_one.exists() and older.exists()


def test_a_model_that_does_not_fit_is_not_begun(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operations.node.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    answer = download(store)
    assert "make room" in answer["error"]
    assert not list(store.glob(f"{FOLDER}/snapshots/*/model*"))


def test_the_files_that_are_named_come_alone(store: Path) -> None:
    def fetched(*patterns: str) -> Any:
        named = json.dumps({"only": patterns, "without": []})
        return hub.main([REPO, REVISION, named], str(store), FOLDER, REVISION, str(store.parent), "files")

    assert fetched("*-1.safetensors").get("done")
    assert [each.name for each in (store / FOLDER / "snapshots" / REVISION).iterdir()] == ["model-1.safetensors"]
    assert "has no file at" in fetched("*.gguf")["error"] and "correct `model.files`" in fetched("*.gguf")["error"]


def of_another(store: Path, name: str, content: bytes | None = None) -> Path:
    """A blob in another model's folder under the hash of a file that the Hub has, with its content or another."""
    source = store.parent / "source" / FOLDER / "snapshots" / REVISION / name
    other = store / "models--org--other/blobs" / Path(source.readlink()).name
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_bytes(content or source.read_bytes())
    return other


def test_a_file_that_another_model_has_is_linked_and_kept_once(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = of_another(store, "model-0.safetensors")
    assert download(store).get("done")
    assert "model-0.safetensors" not in FaultyHub.sent and "model-2.safetensors" in FaultyHub.sent
    assert (store / FOLDER / "blobs" / other.name).samefile(other)
    assert '"said": "0.02 GB of it are another model\'s too: kept once"' in capfd.readouterr().out
    assert marks.since(FOLDER, REVISION, marks.BROUGHT)
    mark = proof.PROVEN / FOLDER / f"{REVISION}.{marks.BROUGHT}"
    assert len(mark.read_text().split()) == len(list((store / FOLDER / "snapshots" / REVISION).iterdir()))
    assert_whole(store)


def test_a_file_of_another_model_that_is_not_what_its_name_says_is_fetched(store: Path) -> None:
    size = of_another(store, "model-0.safetensors").stat().st_size
    other = of_another(store, "model-0.safetensors", b"x" * size)
    assert download(store).get("done")
    assert "model-0.safetensors" in FaultyHub.sent and other.read_bytes() == b"x" * size
    assert_whole(store)
