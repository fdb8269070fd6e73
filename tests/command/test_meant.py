"""What somebody means whose words the command does not take: one line, with what to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from operations.command.app import BEGIN, main
from operations.command.groups import app
from operations.command.meant import TYPED
from tests.support.command_line import OFF

VERBS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An owner's folder with two nodes, which is the current one."""
    (tmp_path / "inventory.py").write_text(OFF)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANDEM_FOLDER", raising=False)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], typed: list[str]) -> str:
    """The one line that a command is refused with."""
    assert main(typed) == 2
    told = capsys.readouterr()
    [line] = told.err.splitlines()
    assert told.out == ""
    return line


@pytest.mark.parametrize("word", TYPED)
def test_each_word_that_is_typed_for_a_verb_leads_to_one_that_there_is(word: str) -> None:
    first, _, second = word.partition(" ")
    assert (second or first) not in (VERBS[first].commands if second else VERBS)
    name, *rest = shlex.split(TYPED[word][0])
    if name in ("--help", "--version"):
        return
    command = VERBS[name]
    if rest and hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    command.make_context(name, rest)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("remove", "`tandem down --all` removes everything (it asks); `tandem models rm NAME` removes one model"),
        ("uninstall", "no verb is named `uninstall`: `tandem down --all` removes everything (it asks)"),
        ("stop", "no verb is named `stop`: `tandem down` stops what serves; images and models stay"),
        ("models remove org/m", "no verb is named `remove`: `tandem models rm NAME` removes a model from all nodes"),
        ("down all", "did you mean `tandem down --all`?"),
        ("down --model coder all", "`tandem down` takes no `all`; "),
        ("models rm org/m --all", "No such option: --all; `tandem models rm --help` lists what there is"),
        ("logs coder follow", "did you mean `tandem logs coder --follow`?"),
        ("status model", "`tandem status` takes no `model`; "),
        (
            "init sparks --nodes 192.168.1.41 192.168.1.42",
            "`tandem init` takes no `192.168.1.42`; write the Sparks with a comma: "
            "`tandem init sparks --nodes 192.168.1.41,192.168.1.42`",
        ),
        ("init new --yes --nodes a, b, c --user me", "with a comma: `tandem init new --nodes a,b,c --yes --user me`"),
        ("init ~/sparks spark-1 spark-2", "with a comma: `tandem init ~/sparks --nodes spark-1,spark-2`"),
        ("init --nodes a b ~/sparks", "with a comma: `tandem init ~/sparks --nodes a,b`"),
        ("init new --recipe mine", "`tandem init` has no `--recipe`; did you mean `tandem init new --model mine`?"),
        ("advise --users 8 chat", 'the load is words in quotes: `tandem advise "8 users chat"`'),
        ("fit org/m --user 4", "No such option: --user (Possible options: --users)"),
        ("apply --models coder", "`models` is a knob: say it in group_data/all.py"),
        ("apply --alarms x", "`alarms` is a knob: say it in group_data/all.py"),
        ("init ~/sparks --nodes a,b --recipe=mine", "did you mean `tandem init ~/sparks --nodes a,b --model=mine`?"),
        ("init --nodes a,b home extra", "`tandem init home --nodes a,b,extra`"),
        ("init '/a b/c' x y", "`tandem init '/a b/c' --nodes x,y`"),
        ("fit org/m --people 4", "did you mean `tandem fit org/m --users 4`?"),
        ("down yes all", "`tandem down` takes no `yes all`; "),
        ("status ''", "`tandem status` takes no `''`; "),
        ("chat -- a b", "in quotes: `tandem chat --say 'a b'`"),
        (
            "advise 10 people with cursor --detail",
            "`tandem advise` takes no `people with cursor`; "
            "write the load in quotes: `tandem advise '10 people with cursor' --detail`",
        ),
        ("advise --recipe any 8 users chat", "in quotes: `tandem advise '8 users chat' --recipe any`"),
        ("chat --say Why is it blue", "write the question in quotes: `tandem chat --say 'Why is it blue'`"),
        ("chat 'Why is it blue' --model coder", "in quotes: `tandem chat --say 'Why is it blue' --model coder`"),
        (
            "status spark-1",
            "`tandem status` takes no `spark-1` (no verb takes a node: each is about all of them); ",
        ),
        ("status 127.0.0.1", "takes no `127.0.0.1` (no verb takes a node"),
        ("status coder", "`tandem status` takes no `coder`; `tandem status --help` lists what there is"),
        ("apply --topology cluster", "`topology` is a knob: `tandem apply topology=cluster`"),
        ("plan --topology=cluster --diff", "`topology` is a knob: `tandem plan topology=cluster`"),
        ("apply --proxy-port", "`proxy_port` is a knob: `tandem apply proxy_port=VALUE`"),
        ("status --recipe any", "`recipe` is a knob: `tandem plan recipe=any`"),
        ("apply --reach home", "`tandem apply` has no `--reach`; did you mean `tandem init --reach home`?"),
        ("apply --deep", "`tandem apply` has no `--deep`; did you mean `tandem verify --deep`?"),
        ("-C sparks status --json", "`-C` stands behind the verb: `tandem status -C sparks --json`"),
        ("--jsn status", "No such option: --jsn; `tandem --help` lists what there is"),
        ("-C sparks models prune", "No such option: -C; `tandem --help` lists what there is"),
        ("--folder sparks", "No such option: --folder; `tandem --help` lists what there is"),
        ("status --jsn", "No such option: --jsn (Possible options: --json); `tandem status --help`"),
        ("init new -C sparks", "No such option: -C; `tandem init --help` lists what there is"),
        (
            "explain nonsense",
            "a code is like `rail-no-carrier`, in brackets behind a finding; all codes and alarms: docs/messages.md",
        ),
        ("explain rail-no-carier", "did you mean `rail-no-carrier`?"),
    ],
)
def test_a_line_says_what_to_type(capsys: pytest.CaptureFixture[str], typed: str, said: str) -> None:
    assert said in refused(capsys, shlex.split(typed))


def test_a_node_is_one_of_the_folder_that_is_named(owner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (owner / "inventory.py").rename(owner / "mine.py")
    assert "no verb takes a node" not in refused(capsys, ["status", "spark-1"])
    assert "no verb takes a node" in refused(capsys, ["status", "spark-1", "--inventory", "mine.py"])
    (owner / "mine.py").write_text("nodes = [")
    assert "no verb takes a node" not in refused(capsys, ["status", "spark-1", "--inventory", "mine.py"])


def test_who_has_no_folder_reads_first_how_to_begin(
    owner: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([]) == 2 and BEGIN not in capsys.readouterr().out
    (owner / "new").mkdir()
    monkeypatch.chdir(owner / "new")
    assert main([]) == 2
    told = capsys.readouterr().out
    assert told.splitlines()[0] == BEGIN and "apply" in told.replace(BEGIN, "")
    monkeypatch.setenv("TANDEM_FOLDER", str(owner))
    assert main([]) == 2 and BEGIN not in capsys.readouterr().out
    for line in re.findall(r"`(?:cd \S+ && )?tandem (.*?)`", BEGIN):
        name, *rest = line.split()
        VERBS[name].make_context(name, rest)


def test_the_help_of_init_says_which_knob_a_reach_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--help"]) == 0
    said = " ".join(re.sub(r"[│\s]+", " ", capsys.readouterr().out).split())
    for words in ("proxy_bind is loopback", "home (management)"):
        assert words in said
