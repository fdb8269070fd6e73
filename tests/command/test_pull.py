"""`tandem models pull ORG/NAME`: what a small Hub says of it, before a node is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from operations.command.app import main
from tests.command.test_fit import COMMIT, DENSE, INDEX, SHARDS, Listening, Server, put_in
from tests.deploy.fake import OFF, inventory_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An owner's folder, whose nodes are off, and whose knobs name a small Hub; its files are in `hub`."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    (tmp_path / "hub").mkdir()
    (tmp_path / "group_data").mkdir()
    server = Server(("127.0.0.1", 0), partial(Listening, tmp_path / "hub", ""))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "group_data/all.py").write_text(f'hub_endpoint = "http://127.0.0.1:{server.server_port}"\n')
    inventory_of(tmp_path, [OFF, OFF]).rename(tmp_path / "inventory.py")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    server.shutdown()
    server.server_close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What nodes would be asked for."""
    found: list[str] = []

    def instead(_words: list[str], more: dict[str, str]) -> int:
        found.append(more["PULLED"])
        return 0

    monkeypatch.setattr("operations.command.running.wait", instead)
    return found


def pull(what: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["models", "pull", what])
    return code, "".join(line for line in capsys.readouterr().err.splitlines(True) if not line.startswith("hub: "))


def test_a_repository_is_asked_for_at_the_commit_that_it_has_now(
    folder: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    put_in(folder / "hub", "org/m", {"config.json": DENSE, "model.safetensors.index.json": INDEX, **SHARDS})
    put_in(folder / "hub", "org/g", {"m-Q4_K_M.gguf": 2, "m-Q8_0.gguf": 4})
    assert pull("org/m", capsys) == (0, "") and pull("org/g:Q4_K_M", capsys) == (0, "")
    assert f'"repo": "org/m", "revision": "{COMMIT}", "kind": "model", "files": [], "gib": 61.0' in asked[0]
    assert f'"revision": "{COMMIT}", "kind": "gguf", "files": ["m-Q4_K_M.gguf"], "gib": 2.0' in asked[1]
    # A name is a recipe's or a model's: the nodes' plan knows it.
    assert pull("qwen3.6-35b-a3b-nvfp4", capsys) == (0, "") and asked[2] == '{"name": "qwen3.6-35b-a3b-nvfp4"}'


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("org/none", "the Hub has no org/none; is it written as on the Hub?"),
        ("org/pictures", "org/pictures has no weights of a known format (safetensors, PyTorch, GGUF); name a repo"),
        ("org/g", "org/g has 2 such builds; write org/g:BUILD with one of: m-Q4_K_M, m-Q8_0"),
        ("org/parts", "lacks"),
        ("org/ /m", "`org/ /m` is no repository; write ORG/NAME"),
    ],
)
def test_what_can_t_be_fetched_is_one_line_and_no_node_is_asked(
    folder: Path, asked: list[str], what: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in(folder / "hub", "org/pictures", {"a.png": b"x"})
    put_in(folder / "hub", "org/g", {"m-Q4_K_M.gguf": 2, "m-Q8_0.gguf": 4})
    put_in(folder / "hub", "org/parts", {"m-00001-of-00002.gguf": 2})
    code, err = pull(what, capsys)
    assert code == 2 and err.startswith("tandem: pull: ") and said in err and err.count("\n") == 1
    assert asked == []
