"""Files that nobody should write, and somebody does: one line each, soon, and without a secret."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from operations.plan.config.refusal import Finding, Refusal, Remark
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.formats.shell import split
from operations.verbs import recipes

ROOT = Path(__file__).parents[2]
SECRET = "hf_Planted0Secret1Planted"
#: What only its place can tell.
BARE = SECRET.removeprefix("hf_")
V1 = "recipe_version: '1'\nmodel: org/model\ncontainer: vllm-node\n"
GOOD = f"{V1}command: vllm serve org/model\n"
V2 = "recipe_version: '2'\nmodel: org/model\ncontainer: vllm-node\n"
OWN = (
    f"name: x\nengine: vllm\nimage: x\nserved_name: x\ntopologies: [solo]\nload_minutes: 1\ndescription: x\nsource: x\n"
    f"model: {{repo: org/model, revision: {'a' * 40}, weights_gib: 1, block_size: 8}}\n"
)
#: A default that is sixteen of the next, and so on.
NESTED = ", ".join(
    f"{name}: '{('{' + following + '}') * 16}'" for name, following in zip("abcdefg", "bcdefgh", strict=True)
)
PAIRS = tuple(zip("abcdefgh", "bcdefghi", strict=True))
LAUGHS = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in PAIRS)

#: A file's content, and a word of the one line that is said of it.
CONTENTS: dict[str, tuple[str | bytes, str]] = {
    "a number without end": (f"{V1}defaults: {{port: .inf}}\ncommand: x", "line 4: `.inf` and `.nan` are no numbers"),
    "no number": (f"{V2}min_nodes: .nan\n", "line 4: `.inf` and `.nan` are no numbers"),
    "a number that overflows": (f"{V2}min_nodes: 1.0e+999\n", "line 4: `.inf` and `.nan` are no numbers"),
    "5,000 digits": (f"{V2}min_nodes: {'9' * 5000}\n", "line 4: a number has 5,000 digits, more than 64"),
    "5,000 hexadecimal digits": (f"{V2}min_nodes: 0x{'f' * 5000}\n", "digits, more than 64"),
    "a number that is none": (f"{V2}min_nodes: !!int two\n", "what is said to be a number is none"),
    "a boolean that is none": (f"{V2}solo_only: !!bool maybe\n", "what is said to be a boolean is none"),
    "Latin-1": (V1.encode() + b"description: gr\xfc\xdfe\n", "is not UTF-8 in line 4; save it as UTF-8"),
    "UTF-16": (GOOD.encode("utf-16"), "is not UTF-8 in line 1"),
    "a NUL byte": (f"{V1}command: vllm serve\0", "line 4 has the control character #x00 in it"),
    "a NUL as an escape": (f'{V1}command: "vllm serve\\0"', "line 4: a text has a control character in it"),
    "half a surrogate pair": (f'{V1}command: "vllm \\ud800"', "line 4: a text has a control character in it"),
    "aliases that explode": (f"a: &a [x, x]\n{LAUGHS}", "more than 5,000 values or 1,048,576 characters"),
    "aliases of a long text": (
        f"a: &a {'x' * 99_999}\nb: [{', '.join(['*a'] * 99)}]\n",
        "more than 5,000 values or 1,048,576 characters",
    ),
    "merges that explode": (
        "a: &a {x: 1}\n" + "".join(f"m{n + 1}: &{b} {{<<: [{f'*{a}, ' * 9}]}}\n" for n, (a, b) in enumerate(PAIRS)),
        "more than 5,000 values",
    ),
    "an anchor in itself": ("a: &a\n  b: *a\n", "line 2: an anchor contains itself"),
    "deep lists": ("[" * 50_000, "more than 20 deep in each other"),
    "deep mappings": ("\n".join(" " * n + "a:" for n in range(300)), "more than 20 deep in each other"),
    "a list as a key": ("? [a]\n: b\n", "line 1: a key is not a word"),
    "a list as a key of what is merged": (f"{GOOD}d:\n  <<: {{[a]: b}}\n", "line 6: a key is not a word"),
    "keys that are no texts": (f"{GOOD}1: x\non: x\nnull: x\n2024-01-01: x\n", "`on` is no key of this format"),
    "a key twice, as a number and as a text": (f"{GOOD}1: x\n'1': y\n", "`1` in line 6 is given twice, with different"),
    "a date": (f"{GOOD}description: 2024-02-30\n", "remark"),
    "a set": (f"{V1}defaults: !!set {{a, b}}\n", "line 4: a value has a tag"),
    "an object of Python's": (f"{V1}defaults: !!python/object/apply:os.system [ls]\n", "line 4: a value has a tag"),
    "a text that looks like a tag": (f"{V1}description: !{BARE}\n", "line 4: a value has a tag, or begins with an"),
    "a text that looks like an alias": (f"{V1}description: *{BARE}\n", "line 4: found undefined alias"),
    "two documents": (f"{GOOD}---\n{GOOD}", "line 5 begins a second document: one file has one recipe"),
    "a tab": (f"{V1}command:\n\tx\n", "line 5: while scanning for the next token, found character"),
    "YAML that breaks at a secret": (f"{V1}env:\n  A: 'b' {SECRET}\n", "is not YAML: line 5"),
    "1 GB": ("", "has 1,048,576 KiB; a recipe has 256 KiB at most"),
    "a command of 5 MB": (f"{V1}command: vllm serve {'x' * 5_000_000}\n", "a recipe has 256 KiB at most"),
    "100,000 lines": (f"{V1}command: |\n" + "  --a 1\n" * 100_000, "a recipe has 256 KiB at most"),
    "a command of 200 KB": (f"{V1}command: vllm serve {'x' * 200_000}\n", "has more than 65,536 characters"),
    "a hook of 200 KB": (f"{V2}pre_exec: ['true {'x' * 200_000}']\n", "has more than 65,536 characters"),
    "20,000 short lines": (f"{V1}command: |\n" + "  a\n" * 20_000, "its command has more than 4,000 words"),
    "as many empty lines": (
        f'{V1}command: "vllm serve org/model{chr(92)}n' + "\\n" * 60_000 + '--a 1"',
        "a backslash is missing",
    ),
    "a width": (f"{V1}defaults: {{port: 1}}\ncommand: vllm serve {{port:>999999999}}\n", "more than 1,000 characters"),
    "a precision": (f"{V1}defaults: {{a: 1.0}}\ncommand: vllm serve {{a:.999999999f}}\n", "more than 1,000 characters"),
    "a value's own value": (
        f"{V1}defaults: {{a: 1}}\ncommand: vllm serve org/model --x {{a.b}}\n",
        "`{a.b}` in the command has no default",
    ),
    "an element of a value": (
        f"{V1}defaults: {{a: [1]}}\ncommand: vllm serve org/model --x {{a[0]}}\n",
        "`{a[0]}` in the command has no default",
    ),
    "defaults that explode": (
        f"{V2}defaults: {{{NESTED}}}\ncommand: vllm serve org/model {{a}}\n",
        "more than 65,536 characters when it is filled in",
    ),
    "defaults that explode into nothing": (
        f"{V2}defaults: {{{NESTED}, h: ''}}\ncommand: vllm serve org/model {{a}}\n",
        "more than 65,536 characters when it is filled in",
    ),
    "variables that explode": (
        f"{V1}command: |\n  A=xxxxxxxxxxxxxxxx\n"
        + "".join(f"  {b}={f'${{{{{a}}}}}' * 16}\n" for a, b in zip("ABCDEFG", "BCDEFGH", strict=True))
        + "  vllm serve org/model --a ${{H}}\n",
        "more than 65,536 characters when it is filled in",
    ),
    "a thousand keys": (V1 + "".join(f"k{n}: 1\n" for n in range(1000)), "line 1: a mapping has more than 200 keys"),
    "a thousand placeholders": (
        f"{V1}command: vllm serve org/model {' '.join(f'{{b{n}}}' for n in range(1000))}\n",
        "more than 100 placeholders of its command have no default",
    ),
    "JSON without end": (
        f"{V1}command: vllm serve org/model --speculative-config {'[' * 5_000}\n",
        "more than 100 brackets in each other",
    ),
    "a thousand flags": (f"{V1}command: vllm serve org/model {'--a 1 ' * 1_000}\n", "it has more than 150 flags"),
    "a flag of a thousand letters": (
        f"{V1}command: vllm serve org/model --{'a' * 1_000}\n",
        "more than 100 characters",
    ),
    "numbers that are none": (
        f"{OWN}flags: {{kv-cache-memory-bytes: 1.1.1G, max-num-batched-tokens: '²', enable-prefix-caching: true}}\n",
        "a-bad   tandem",
    ),
    "a number without end in quotes": (f"{OWN}needs: {{image_disk_gib: 'inf'}}\n", "should be a finite number"),
    "a text of names of secrets": (f"{GOOD}description: {'_TOKEN' * 40_000}\n", "remark"),
    "a variable of beginnings of tokens": (f"{GOOD}env: {{A: '{'-eyJ' * 60_000}'}}\n", "remark"),
    "many flags that nobody knows": (
        f"{V1}command: vllm serve org/model {' '.join(f'--its-own-flag-{n} 1' for n in range(150))}\n",
        "its-own-flag-7`",
    ),
    "a value of 60,000 letters": (f"{V1}command: vllm serve org/model --dtype {'a' * 60_000}\n", "dtype"),
    "a file's name of 5,000 letters": (
        f"{V1}command: vllm serve org/model --chat-template {'a' * 5_000}\n",
        "there is no such file beside the recipe",
    ),
    **{
        f"a draft called {name}": (
            f'{V1}command: |\n  vllm serve org/model --speculative-config \'{{{{"model": "{name}"}}}}\'\n',
            f"`{name}`",
        )
        for name in ("n²/x", "org/..", "-x/y", "models--..--../snapshots/x")
    },
    "quotes that nothing closes": (f"{V1}command: vllm serve 'org/model\n", "a single quote is not closed"),
    "braces that nothing closes": (f"{V2}command: vllm serve org/model --a {'${' * 30_000}\n", "remark"),
    "a here-document": (
        f"{V1}command: |\n  cat <<'END' > /tmp/x\n  it's\n  END\n  vllm serve org/model\n",
        "the command runs `cat` as well",
    ),
    "a here-document that nothing closes": (
        f"{V1}command: |\n  cat <<END\n  vllm serve org/model\n",
        "a here-document is not closed",
    ),
    "a superscript": (f"{V1}command: vllm serve org/model -tp ²\ncluster_only: true\n", "remark"),
    "a load that never ends": ("name: x\nengine: vllm\nload_minutes: 1.0e+300\n", "less than or equal to 10080"),
    "a pattern without end": (
        "name: x\nengine: vllm\nproof: {expect: ['" + "(" * 9_000 + "']}\n",
        "it has more than 500 characters",
    ),
    "a pattern that overflows": (
        "name: x\nengine: vllm\nproof: {expect: ['a{99999999999}']}\n",
        "is not a regular expression",
    ),
    "control characters": (
        f'{V1}command: "vllm serve org/model --a 1\\u0085"\n"k\\u009b31m": 1\n',
        "`k\\x9b31m` is no key of this format",
    ),
    "a key in the command": (f"{V1}command: vllm serve org/model --api-key {SECRET}\n", "`--api-key`"),
    "a token in front of the command": (
        f"{V1}command: HF_TOKEN={SECRET} vllm serve org/model\n",
        "env `HF_TOKEN` is left out",
    ),
    "a token in another command": (
        f"{V1}command: hf auth login --token x{SECRET} && vllm serve org/model\n",
        "`hf auth login --token …`",
    ),
    "a token behind a quote": (
        f"{V1}env: {{HF_TOKEN: {SECRET}}}\ncommand: vllm serve org/model '{SECRET}\n",
        "a single quote is not closed",
    ),
    "a token that is a number": (
        "name: x\nengine: vllm\nenv: {HF_TOKEN: 1234567890123}\n",
        "`HF_TOKEN` looks like a secret",
    ),
}


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `tandem recipes` says; it must take less than two seconds of computing."""
    recipes.main(str(folder / "none"))
    before = time.process_time()
    assert recipes.main(str(folder)) == 0
    assert time.process_time() - before < 2
    return capsys.readouterr().out


@pytest.mark.parametrize("case", CONTENTS)
def test_a_hostile_file_gets_its_line_and_the_next_one_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    content, said = CONTENTS[case]
    file = tmp_path / "a-bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    if case == "1 GB":
        os.truncate(file, 2**30)
    (tmp_path / "b-good.yaml").write_text(GOOD)
    out = told(tmp_path, capsys)
    assert said in out
    assert any("it names no revision" in line and "b-good" in line for line in out.splitlines())
    assert "unreadable" not in out and "Planted0" not in out and "1234567890123" not in out
    assert max(len(line) for line in out.splitlines()) < 2000


def test_what_is_no_file_gets_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "device.yaml").symlink_to("/dev/zero")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "endless.yaml").symlink_to("/proc/self/mem")
    out = told(tmp_path, capsys)
    assert "3 files are no recipes: device.yaml (a device); folder.yaml (a folder); pipe.yaml (a pipe)" in out
    assert "dangling: is a link to a file that is not there" in out
    assert "circle: is a link that leads back to itself" in out
    assert "endless: can't be read" in out
    for name, said in (("pipe", "a pipe"), ("folder", "a folder"), ("device", "a device"), ("dangling", "not there")):
        with pytest.raises(Refusal, match=said):
            load_recipe(str(tmp_path / f"{name}.yaml"))


def test_a_file_that_may_not_be_read_gets_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        # Root, as tests in a container are, may read everything.
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.yaml").write_text(GOOD)
    monkeypatch.setattr(Path, "open", forbidden)
    assert "a: can't be read: its mode forbids it; chmod +r it" in told(tmp_path, capsys)


def test_no_remark_and_no_finding_shows_what_stands_behind_a_secret_s_name() -> None:
    for text in (f"the value `x --api-key {BARE}`", f"`HF_TOKEN={BARE}`", f"`{SECRET}`", f"Bearer {BARE}\n"):
        assert "Planted0" not in str(Refusal(Finding(text, text, text))) + str(Remark(True, text, text))


def test_braces_that_nothing_closes_are_looked_for_once() -> None:
    before = time.process_time()
    split("$" + "${" * 30_000)
    assert time.process_time() - before < 0.3


def test_names_of_files_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("[bold]x", "[x", "a b", "new\nline", ":smile:", "\x1b[31mred", "x" * 200)
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(GOOD)
    (tmp_path / os.fsdecode(b"latin-\xfc.yaml")).write_text(GOOD)
    out = told(tmp_path, capsys)
    for shown in ("[bold]x", "[x", "a b", "new line", ":smile:", "\\x1b[31mred", "latin-\\udcfc"):
        assert any(line.startswith(f"{shown} ") and "ok, 3 remark(s)" in line for line in out.splitlines())
    assert "\x1b" not in out


def test_other_files_of_a_registry_are_skipped_by_name_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        ".sparkrun/registry.yaml": "registries:\n  - {name: official, recipes: recipes, benchmarks: benchmarking}\n",
        "benchmarking/v1.yaml": "framework: llama-benchy\nmetadata: {description: x}\nargs: {pp: [2048]}\n",
        "benchmarking/v2.yaml": "benchmark:\n  framework: llama-benchy\n  args: {pp: [2048]}\n",
        "compose.yml": "services:\n  vllm: {image: x}\n",
        ".github/workflows/test.yml": "on: push\njobs: {}\n",
        "stack.yaml": "name: x\nmodels:\n  - {recipe: recipes/x.yaml}\n",
        "bases.yaml": "schema_version: 1\ndefaults: {serving: {}}\nfamilies: {glm: {}}\n",
        "empty.yaml": "# nothing yet\n",
        "list.yaml": "- a\n",
        "recipes/x.yaml": GOOD + "benchmark: {framework: llama-benchy}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    out = told(tmp_path, capsys)
    line = next(line for line in out.splitlines() if "no recipes" in line)
    assert line.startswith("9 files are no recipes: ")
    assert ".sparkrun/registry.yaml (a registry of sparkrun's)" in line
    assert "benchmarking/v1.yaml, benchmarking/v2.yaml (a benchmark of sparkrun's)" in line
    assert all(out.count(name) == 1 for name in files if name != "recipes/x.yaml")
    with pytest.raises(Refusal, match="it is a registry of sparkrun's"):
        load_recipe(str(tmp_path / ".sparkrun/registry.yaml"))


def test_a_reader_that_never_ends_or_breaks_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(path: Path) -> None:
        if path.stem == "breaks":
            raise KeyError(SECRET)
        while path.stem == "hangs":
            with contextlib.suppress(OSError):
                "".join(map(str, range(1000)))

    (tmp_path / "hangs.yaml").write_text(GOOD)
    (tmp_path / "breaks.yaml").write_text(GOOD)
    monkeypatch.setattr(recipes, "load_file", hangs)
    monkeypatch.setattr(recipes, "SECONDS", 0.1)
    out = told(tmp_path, capsys)
    assert "hangs: TooSlow while it was read" in out and "breaks: KeyError while it was read" in out
    assert SECRET not in out


def test_the_makefile_takes_a_folder_with_blanks_and_quotes(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "folder" $(x)'
    folder.mkdir()
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "operations.verbs.recipes" in line)
    (tmp_path / "Makefile").write_text(f"BIN := {tmp_path}\nrecipes:\n{line}\n")
    (tmp_path / "python").write_text('#!/bin/sh\necho "$#:$3"\n')
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        ["make", "-s", "-C", str(tmp_path), "recipes"],
        env={**os.environ, "DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"3:{folder}\n"


@pytest.mark.parametrize("name", ["~nobody-of-that-name/x.yaml", "a\0b.yaml", "x" * 5000 + ".yaml", "/x/" + "y" * 5000])
def test_a_path_that_can_t_be_one_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="there is no such file here"):
        load_recipe(name)
