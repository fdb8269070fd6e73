"""Verbs behind a verb (`tandem models rm`): what each takes, and what is not understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from operations.command.app import main
from operations.command.groups import DAILY, all_verbs, app

BEHIND = [(words, info) for _, words, info in all_verbs() if " " in words]


@pytest.mark.parametrize(("words", "info"), BEHIND, ids=[words for words, _ in BEHIND])
def test_each_has_an_example_that_is_understood(words: str, info: object) -> None:
    first, second = words.split()
    command = get_command(app).commands[first].commands[second]  # type: ignore[attr-defined]
    examples = re.findall(r"Example: (.*)", str(getattr(info, "epilog", "")))
    assert command.help and examples
    for example in examples:
        assert shlex.split(example)[1:3] == [first, second]
        command.make_context(second, shlex.split(example)[3:])


def test_they_stand_behind_their_verb_on_the_page() -> None:
    names = [words for group, words, _ in all_verbs() if group == DAILY]
    assert names[names.index("models") :] == [
        "models",
        *(f"models {each}" for each in ("pull", "rm", "pin", "unpin", "prune")),
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["prun"], "no verb is named `prun`: did you mean `prune`?"),
        (["xyzzy"], "no verb is named `xyzzy`: `tandem models --help` lists them"),
        (["rm"], "Missing argument 'names', e.g. `tandem models rm Qwen/Qwen3-32B`; `tandem models rm --help` lists"),
        (["rm", "org/m"], "folder: no inventory.py is in"),
        ([], "folder: no inventory.py is in"),
    ],
)
def test_what_is_not_understood_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["models", *typed]) == 2
    err = capsys.readouterr().err
    assert said in err and len(err.splitlines()) == 1


def test_a_verb_behind_another_takes_the_folder_from_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one in front would look for an inventory where nobody has one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sparks").mkdir()
    (tmp_path / "sparks/inventory.py").write_text("nodes = []\n")
    ran: list[tuple[str, str]] = []

    def query(_at: object, name: str, *, more: dict[str, str], do: str) -> int:
        ran.append((Path.cwd().name, f"{name} {do} {more['WORDS']}"))
        return 0

    monkeypatch.setattr("operations.command.running.query", query)
    assert main(["models", "pin", "org/m", "--folder", "sparks"]) == 0
    assert ran == [("sparks", 'models pin ["org/m"]')]


@pytest.mark.parametrize("words", [["-C", "sparks"], ["--data", "topology=solo"], ["--json"], ["--inventory", "a.py"]])
def test_an_option_before_the_verb_behind_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """It would be dropped: another folder's nodes would be the ones that lose a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory.py").write_text("nodes = []\n")
    asked: list[object] = []

    def answer(*given: object, **_: object) -> tuple[int, str]:
        asked.append(given)
        return 0, "{}"

    monkeypatch.setattr("operations.command.running.answer", answer)
    assert main(["models", *words, "rm", "org/m", "--yes"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert " stands before `rm`, which would not have it; write it behind" in line and not asked


def test_the_folder_of_the_environment_is_for_the_verb_behind_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inventory.py").write_text("nodes = []\n")
    monkeypatch.setenv("TANDEM_FOLDER", str(tmp_path))
    ran: list[str] = []

    def query(*_: object, do: str, **__: object) -> int:
        ran.append(do)
        return 0

    monkeypatch.setattr("operations.command.running.query", query)
    assert main(["models", "pin", "org/m"]) == 0 and ran == ["pin"]
