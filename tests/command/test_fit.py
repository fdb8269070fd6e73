"""`tandem fit` against a small Hub, whose weights are files as long as real ones that have nothing in them."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from operations.command.app import main
from operations.plan.config.knobs import read_knobs
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.judge import lint
from operations.plan.wanted import group_data
from tests.lab.hub import Hub as SmallHub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIB = 2**30
#: A dense model with GQA; its facts are Qwen3-32B's.
DENSE: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
SHARDS = {f"model-0000{number}-of-00002.safetensors": 30.5 for number in (1, 2)}
INDEX = {"weight_map": {f"layer.{name}": name for name in SHARDS}}

#: What the small Hub was asked for: path, and range.
ASKED: list[tuple[str, str]] = []


class Listening(SmallHub):
    """Says what it was asked for; `no_ranges`: as a mirror that always sends all of a file."""

    no_ranges = False

    def do_GET(self) -> None:
        """Remembers, and answers."""
        ASKED.append((self.path, self.headers.get("Range", "")))
        if self.no_ranges:
            del self.headers["Range"]
        super().do_GET()


class Server(ThreadingHTTPServer):
    """Silent where somebody has read enough and goes."""

    def handle_error(self, *_: object) -> None:
        pass


Put = Callable[..., None]
Say = Callable[..., tuple[int, str, str]]


def put_in(folder: Path, repo: str, files: Mapping[str, Any]) -> None:
    """A repository: a number is a file of so many GiB that has nothing in it, a mapping is JSON."""
    home = folder / ("models--" + repo.replace("/", "--"))
    snapshot = home / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs/main").write_text(COMMIT)
    for name, what in files.items():
        file = snapshot / name
        if isinstance(what, bytes):
            file.write_bytes(what)
        elif isinstance(what, dict):
            file.write_text(json.dumps(what))
        else:
            with file.open("wb") as opened:
                opened.truncate(int(what * GIB))


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Puts a repository on the Hub."""
    (tmp_path / "hub").mkdir()
    return partial(put_in, tmp_path / "hub")


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Say]:
    """What `tandem fit` says in a folder whose knobs name the small Hub."""
    servers: list[ThreadingHTTPServer] = []
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    def fit(*words: str, token: str = "", knobs: str = "") -> tuple[int, str, str]:
        server = Server(("127.0.0.1", 0), partial(Listening, tmp_path / "hub", token))
        ASKED.clear()
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "group_data").mkdir(exist_ok=True)
        text = f'hub_endpoint = "http://127.0.0.1:{server.server_port}"\n{knobs}'
        (tmp_path / "group_data/all.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        code = main(["fit", *words])
        told = capsys.readouterr()
        return code, told.out, "".join(f"{line}\n" for line in told.err.splitlines() if not line.startswith("hub: "))

    yield fit
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_repository_is_told_by_topology(put: Put, say: Say) -> None:
    put("Qwen/Qwen3-32B", {"config.json": DENSE, "model.safetensors.index.json": INDEX, **SHARDS, "other.bin": 9})
    code, out, err = say("Qwen/Qwen3-32B", "--nodes", "2", "--users", "2")
    assert (code, err) == (0, "")
    assert "Qwen/Qwen3-32B at 0123456789ab: Qwen3ForCausalLM, 64 layers, context 40960" in out
    # What the index names alone is loaded; all is fetched.
    assert "weights   61.0 GiB in 2 files, 75 GB to fetch" in out
    assert "KV cache  262,144 bytes a token in BF16" in out
    # 0.79 x 119.7 - 61 - 4 = 29.6 GiB, and 8 GiB for each of 32K.
    rows = {line.split("  ")[0].strip(): line.split() for line in out.splitlines()}
    assert rows["solo"] == ["solo", "14", "3", "40K", "61.0", "29.6"]
    assert rows["cluster of 2"][3:] == ["60", "15", "40K", "30.5", "60.1"]
    assert rows["pipeline of 2"][3:] == ["60", "15", "40K", "30.5", "60.1"]
    assert rows["replicas of 2"][3:] == ["28", "6", "40K", "61.0", "29.6"]
    assert "2 users at 32,768 tokens: room in solo, cluster of 2, pipeline of 2, replicas of 2" in out


def test_what_has_no_room_is_told_with_what_would_have_to_change(put: Put, say: Say) -> None:
    put("Qwen/Qwen3-32B", {"config.json": DENSE, "model.safetensors.index.json": INDEX, **SHARDS})
    code, out, _ = say("Qwen/Qwen3-32B", "--nodes", "1", "--users", "5", "--context", "40960")
    assert code == 1
    change = out[out.index("5 users at 40,960 tokens: no room. What would have to change:") :].splitlines()[1:]
    assert change == [
        "  fewer users: 2 at 40,960 tokens (solo)",
        "  a lower context: 23,552 tokens for 5 (solo)",
        "  more nodes: a cluster of 2",
        "  a KV cache in FP8 (kv-cache-dtype: fp8): solo",
        "  a smaller build: 40 GiB of weights at most, this one has 61; that is 10.6 bits a weight, and one of 4 bits"
        " (NVFP4, AWQ) has about 19 GiB",
    ]
    code, out, _ = say("Qwen/Qwen3-32B", "--nodes", "1", "--users", "5", "--context", "40960", "--kv", "fp8")
    assert code == 0 and "room in solo" in out


def test_for_programs_it_is_json(put: Put, say: Say) -> None:
    put("Qwen/Qwen3-32B", {"config.json": DENSE, "model.safetensors.index.json": INDEX, **SHARDS})
    code, out, err = say("Qwen/Qwen3-32B", "--nodes", "3", "--json")
    told = json.loads(out)
    assert (code, err, told["fits"], told["changes"]) == (0, "", True, [])
    assert told["weights_gib"] == 61 and told["kv"]["bytes_per_token"] == 262144 and told["kv"]["type"] == "bf16"
    by_name = {each["name"]: each for each in told["rooms"]}
    assert by_name["cluster of 3"]["problem"] == "64 heads can't be divided by 3"
    assert by_name["pipeline of 3"]["problem"] == ""
    # 22 of 64 layers are in the largest stage.
    assert by_name["pipeline of 3"]["weights_gib"] == pytest.approx(61 * 22 / 64)


def test_a_recipe_is_written_that_loads_with_its_questions(put: Put, say: Say, tmp_path: Path) -> None:
    config = {**DENSE, "auto_map": {"AutoModel": "x.Y"}, "num_nextn_predict_layers": 1}
    put("Qwen/Qwen3-32B", {"config.json": config, "model.safetensors.index.json": INDEX, **SHARDS})
    code, _, err = say("Qwen/Qwen3-32B", "--write", "recipes/mine.yaml", "--users", "2")
    assert code == 2 and "recipes is no folder; make it" in err
    (tmp_path / "recipes").mkdir()
    code, _, err = say("Qwen/Qwen3-32B", "--write", "recipes/mine.yaml", "--users", "2")
    assert code == 0
    assert err == "recipes/mine.yaml is written; grep QUESTION recipes/mine.yaml lists what it leaves open\n"
    text = (tmp_path / "recipes/mine.yaml").read_text()
    recipe = load_file(tmp_path / "recipes/mine.yaml")
    assert (recipe.name, recipe.model.revision, recipe.model.weights_gib) == ("mine", COMMIT, 61.0)
    assert recipe.topologies == ("solo", "cluster", "replicas")
    assert recipe.flag("max-model-len") == "32768" and recipe.flag("max-num-seqs") == "3"
    for topology in recipe.topologies:
        knobs = read_knobs(
            {**group_data(), "hub_endpoint": "https://huggingface.co", "topology": topology, "executor": "mp"}
        )
        assert [each for each in lint(recipe, knobs) if each.error] == []
    questions = [line for line in text.splitlines() if "# QUESTION:" in line]
    for about in ("serve Qwen3ForCausalLM?", "how long", "tool calls", "code of its own", "multi-token", "kernels"):
        assert sum(about in each for each in questions) == 1, about
    assert "trust-remote-code" not in recipe.model_dump_json() and "tool-call-parser" not in recipe.model_dump_json()
    # Never over what an owner may have edited.
    code, _, err = say("Qwen/Qwen3-32B", "--write", "recipes/mine.yaml")
    assert (code, err) == (2, "tandem: --write: recipes/mine.yaml is there already; name another, or remove it\n")


def test_a_recipe_of_tandem_s_is_fitted_by_its_own_words(put: Put, say: Say, tmp_path: Path) -> None:
    put("Qwen/Qwen3-32B", {"config.json": DENSE, "model.safetensors.index.json": INDEX, **SHARDS, "original.txt": 1})
    text = (
        f"name: mine\ndescription: x\nsource: x\nengine: vllm\nengine_version: 0.31.0\nimage: x@sha256:{'0' * 64}\n"
        f"model: {{repo: Qwen/Qwen3-32B, revision: {COMMIT}, weights_gib: 40, ignore: ['original.*']}}\n"
        "served_name: x\n"
        "topologies: [solo]\nload_minutes: 5\n"
        "flags: {gpu-memory-utilization: SHARE, max-model-len: 16384, kv-cache-dtype: fp8}\n"
    )
    (tmp_path / "mine.yaml").write_text(text.replace("SHARE", "0.7"))
    code, out, _ = say("mine.yaml", "--nodes", "1")
    assert code == 0
    assert "61.0 GiB in 2 files, 65 GB to fetch" in out and "131,072 bytes a token in FP8" in out
    assert "note      the recipe says 40 GiB of weights, and the Hub has 61.0" in out
    assert "0.7 of 119.7 GiB is an engine's" in out and "1 user at 16,384 tokens: room in solo" in out
    (tmp_path / "mine.yaml").write_text(text.replace("SHARE", "0.95"))
    code, out, _ = say("mine.yaml", "--nodes", "1")
    assert code == 1 and "solo: a start wants 119.6 GiB free, an idle Spark has 110 at most" in out


def header(values: Mapping[str, Any]) -> bytes:
    """A GGUF file's head."""

    def text(said: str) -> bytes:
        return struct.pack("<Q", len(said)) + said.encode()

    def value(said: Any) -> bytes:
        if isinstance(said, str):
            return struct.pack("<I", 8) + text(said)
        if isinstance(said, list) and said and isinstance(said[0], str):
            return struct.pack("<IIQ", 9, 8, len(said)) + b"".join(map(text, said))
        if isinstance(said, list):
            return struct.pack("<IIQ", 9, 5, len(said)) + b"".join(struct.pack("<i", each) for each in said)
        return struct.pack("<II", 4, said)

    return b"GGUF" + struct.pack("<IQQ", 3, 1, len(values)) + b"".join(text(n) + value(v) for n, v in values.items())


GGUF = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 36,
    "qwen3.context_length": 40960,
    "qwen3.embedding_length": 4096,
    "qwen3.attention.head_count": 32,
    "qwen3.attention.head_count_kv": 8,
    "qwen3.attention.key_length": 128,
    "qwen3.attention.value_length": 128,
    "tokenizer.ggml.tokens": ["a"] * 5,
}


def test_a_gguf_build_is_read_by_its_head(put: Put, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"general.notes": ["x" * 100] * 20_000, **GGUF}
    files = {"m-Q4_K_M.gguf": header(many), "m-Q8_0-00001-of-00002.gguf": header(GGUF), "m-Q8_0-00002-of-00002.gguf": 5}
    put("org/m-GGUF", {**files, "mmproj-F16.gguf": 1})
    # Its head is longer than what is read at first.
    assert len(files["m-Q4_K_M.gguf"]) > 2**20  # type: ignore[arg-type]
    code, out, err = say("org/m-GGUF:q4_k_m", "--nodes", "1")
    assert (code, err) == (0, "")
    assert "org/m-GGUF, m-Q4_K_M.gguf at 0123456789ab: qwen3, 36 layers, context 40960" in out
    assert "147,456 bytes a token in BF16" in out
    assert [asked for path, asked in ASKED if "resolve" in path] == [
        "bytes=0-1048575",
        "bytes=0-2097151",
        "bytes=0-4194303",
    ]
    monkeypatch.setattr(Listening, "no_ranges", True)
    assert say("org/m-GGUF:q4_k_m", "--nodes", "1") == (code, out, err)
    code, out, _ = say("org/m-GGUF:Q8_0", "--kv", "q8_0", "--json")
    told = json.loads(out)
    assert told["weights_gib"] == 5 and told["kv"]["bytes_per_token"] == 147456 / 2 * 1.0625
    code, _, err = say("org/m-GGUF")
    assert code == 2
    assert err == "tandem: fit: org/m-GGUF has 2 such builds; write org/m-GGUF:BUILD with one of: m-Q4_K_M, m-Q8_0\n"
    code, _, err = say("org/m-GGUF:Q2", "--json")
    assert code == 2 and "no build of org/m-GGUF is named `Q2`" in err
    (tmp_path / "own.gguf").write_bytes(header(GGUF))
    code, out, _ = say("own.gguf", "--nodes", "1")
    assert code == 0 and "own.gguf: qwen3, 36 layers" in out


OWN = (
    f"name: own\ndescription: x\nsource: x\nengine: vllm\nengine_version: 0.31.0\nimage: x@sha256:{'0' * 64}\n"
    "model: {repo: org/m}\nserved_name: x\ntopologies: [solo]\nload_minutes: 5\n"
)
LACKING = {"m-00001-of-00003.gguf": header(GGUF), "m-00003-of-00003.gguf": 1}


@pytest.mark.parametrize(
    ("files", "words", "said"),
    [
        (None, ["org/nobody"], "fit: the Hub has no org/nobody; is it written as on the Hub?"),
        ({"config.json": DENSE}, ["org/m@fff"], "fit: org/m has no revision fff; name a commit"),
        (
            {"README.md": b"x"},
            ["org/m"],
            "fit: org/m has no weights of a known format (safetensors, PyTorch, GGUF); name",
        ),
        (
            {"config.json": DENSE, "adapter_model.safetensors": 1},
            ["org/m"],
            "fit: org/m has no weights at its top; name",
        ),
        ({"model.safetensors": 1}, ["org/m"], "fit: org/m has no config.json; name the model's own repository"),
        ({"model.safetensors": 1, "config.json": b"{"}, ["org/m"], "fit: config.json of org/m is no JSON; name"),
        (
            {"model.safetensors": 1, "config.json": {"architectures": ["SAM"]}},
            ["org/m"],
            "no num_hidden_layers (SAM); name",
        ),
        (
            {"config.json": DENSE, "model.safetensors.index.json": INDEX, "model-00001-of-00002.safetensors": 1},
            ["org/m"],
            "fit: org/m lacks 1 of 2 files that its index names: model-00002-of-00002.safetensors; name",
        ),
        (
            {"config.json": DENSE, "model.safetensors": 0},
            ["org/m"],
            "fit: no size of model.safetensors of org/m is told; ask",
        ),
        (
            {"config.json": DENSE, "model.safetensors.index.json": {"weight_map": []}},
            ["org/m:x"],
            "fit: org/m has no GGUF files, and so no build `x`; write org/m alone",
        ),
        (
            {"config.json": DENSE, "model.safetensors.index.json": {"weight_map": []}, "a.safetensors": 1},
            ["org/m"],
            "fit: model.safetensors.index.json of org/m names no files; name another revision",
        ),
        (None, ["a--b/c"], "fit: `a--b/c` is no name of a repository; write ORG/NAME"),
        (LACKING, ["org/m"], "fit: m has 3 parts, and lacks number 2; name another build"),
        (
            {"m.gguf": b"PK\3\4" + b"0" * 99},
            ["org/m"],
            "fit: it begins with b'PK\\x03\\x04', and a GGUF file with b'GGUF'",
        ),
        ({"m.gguf": header(GGUF)[:90]}, ["org/m"], "fit: the header of m.gguf of org/m has no end; fetch it anew"),
        (
            {"m.gguf": header({"general.architecture": "clip"})},
            ["org/m"],
            "fit: its header says no block_count (clip);",
        ),
        (
            {"config.json": DENSE, "model.safetensors": 9},
            ["org/m", "--kv", "tiny"],
            "type `tiny` is not known; --kv with",
        ),
        (
            {"config.json": DENSE, "model.safetensors": 9},
            ["org/m", "--context", "50000"],
            "--context: 50,000 is more than the model's 40,960; ask for less",
        ),
        (
            {"m.gguf": header(GGUF)},
            ["org/m", "--write", "m.yaml"],
            "--write: no recipe is written for GGUF files; docs",
        ),
        (
            {"config.json": DENSE, "model.safetensors": 9},
            ["own.yaml", "--write", "m.yaml"],
            "--write: own is a recipe already; copy its file, and edit that",
        ),
        (
            {"config.json": DENSE, "model.safetensors": 9},
            ["org/m", "--kv", "q8_0", "--write", "m.yaml"],
            "--write: a recipe of vLLM has no KV cache in q8_0; name one of: bf16, fp8, nvfp4",
        ),
        (None, ["~nosuchuser/x"], "fit: `~nosuchuser/x` is no file's name; write ORG/NAME"),
        (None, [f"{'a' * 300}/x"], "is no file's name; write ORG/NAME"),
        (None, ["org/m", "--write", "m.txt"], "--write: m.txt is no name of a recipe's file; name it like"),
        (None, ["a/b/c/d e"], "fit: `a/b/c/d e` is no repository; write ORG/NAME"),
        (
            None,
            ["qwen3.6-35b"],
            "knob: recipe=qwen3.6-35b: no such recipe; do you mean one of: qwen3.6-35b-a3b-nvfp4",
        ),
        (None, ["gone.yaml"], "knob: recipe=gone.yaml: there is no such file here; give the path of a file"),
    ],
)
def test_what_can_t_be_fitted_is_one_line(
    put: Put, say: Say, tmp_path: Path, files: Any, words: list[str], said: str
) -> None:
    if files is not None:
        put("org/m", files)
    (tmp_path / "own.yaml").write_text(OWN)
    code, out, err = say(*words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


def test_a_gated_one_wants_a_token(put: Put, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("org/m", {"config.json": DENSE, "model.safetensors": 9})
    code, out, err = say("org/m", token="hf_right")
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith("tandem: fit: org/m is gated; accept its terms on the Hub, and log in here")
    (tmp_path / "token").write_text("hf_right\n")
    assert say("org/m", token="hf_right", knobs=f'hub_token_file = "{tmp_path}/token"\n')[0] == 0
    # A file of the head's is not here; then this login's own is taken.
    assert say("org/m", token="hf_right", knobs='hub_token_file = "/nowhere/token"\n')[0] == 2
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    code, _, err = say("org/m", token="hf_right", knobs=f'hub_token_file = "{tmp_path}/token"\n')
    assert code == 2 and "can't be read: it is no text" in err


def test_without_a_network_it_is_one_line(say: Say, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    code, out, err = say("org/m", knobs='hub_endpoint = "http://127.0.0.1:9"\n')
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "fit: http://127.0.0.1:9 can't be reached:" in err and "The knob hub_endpoint names a mirror" in err


def test_what_is_no_hub_is_one_line(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login page of a hotel's, and a token that is none, which is not shown."""
    (tmp_path / "hub").mkdir()

    def page(self: SmallHub) -> None:
        self._answer(200, b"<html>log in</html>", {"Content-Type": "text/html"})

    with monkeypatch.context() as patched:
        patched.setattr(Listening, "do_GET", page)
        code, out, err = say("org/m")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "answers is no Hub's (" in err and "is a network's login page in the way" in err
    monkeypatch.setenv("HF_TOKEN", "gehe\u00efm\u4e2d")
    code, out, err = say("org/m")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "gehe" not in err


@pytest.mark.parametrize("page", ["tree", "blob", "resolve"])
def test_a_page_of_the_hub_s_is_a_repository_and_a_revision(put: Put, say: Say, page: str) -> None:
    put("org/m", {"config.json": DENSE, "model.safetensors": 61})
    revision = json.loads(say("org/m", "--json")[1])["revision"]
    assert json.loads(say(f"https://huggingface.co/org/m/{page}/{revision}", "--json")[1])["revision"] == revision


def test_a_list_that_does_not_go_with_the_layers_is_no_traceback(put: Put, say: Say) -> None:
    put("org/m", {"config.json": {**DENSE, "num_experts": 8, "mlp_only_layers": 3}, "model.safetensors": 61})
    assert say("org/m")[0] in (0, 1)


@pytest.mark.parametrize("word", ["attn_layer_period", "attn_layer_indices", "mamba_d_state"])
def test_words_for_mixed_layers_without_a_list_of_them_are_not_guessed(put: Put, say: Say, word: str) -> None:
    put("org/m", {"config.json": {**DENSE, word: 8}, "model.safetensors": 61})
    assert f"layers of a kind that is not known: {word}" in say("org/m")[1]


def test_a_recipe_of_llama_cpp_is_fitted_by_the_file_that_it_names(put: Put, say: Say, tmp_path: Path) -> None:
    put("org/m", {"m-Q8_0.gguf": header(GGUF), "m-Q4_0.gguf": header(GGUF), "config.json": DENSE})
    own = OWN.replace("engine: vllm\nengine_version: 0.31.0", "engine: llama-cpp\nengine_version: 0.7.0")
    own = own.replace("{repo: org/m}", "{repo: org/m, files: ['*Q8_0*.gguf']}") + "flags: {ctx-size: 4096}\n"
    (tmp_path / "own.yaml").write_text(own)
    code, out, err = say("own.yaml", "--json")
    assert code == 0 and json.loads(out)["what"] == "own", (out, err)


def test_layers_that_nobody_knows_are_not_guessed(put: Put, say: Say) -> None:
    config = {**DENSE, "layer_types": ["full_attention"] * 63 + ["ring_attention"]}
    put("org/m", {"config.json": config, "model.safetensors": 61})
    code, out, _ = say("org/m", "--nodes", "2")
    assert code == 1
    assert "KV cache  not known: it has layers of a kind that is not known: ring_attention" in out
    assert "1 user at 32,768 tokens: not known, as its KV cache is not; the weights fit solo, cluster of 2" in out
    assert json.loads(say("org/m", "--json")[1])["fits"] is False
