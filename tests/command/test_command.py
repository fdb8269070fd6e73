"""`tandem` as an owner types it: a process of its own, real pyinfra, nodes that are off or answer from a script."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command

from operations.command.app import main
from operations.command.groups import EXITS, app
from operations.plan.recipes.formats import stems
from tests.command.conftest import Typed
from tests.deploy.fake import NAMES, deploy, fresh, look, planned
from tests.support.command_line import HELP, PLAIN, ROOT, tandem


def verbs() -> list[str]:
    return [str(each.name) for each in app.registered_commands]


def test_the_help_is_as_it_was_read() -> None:
    """A line that changes is read by somebody: GOLDEN=write keeps it."""
    said = tandem(ROOT, "--help")
    assert said.returncode == 0, said.stderr
    if os.environ.get("GOLDEN") == "write":
        HELP.write_text(said.stdout)
    assert said.stdout == HELP.read_text()


@pytest.mark.parametrize("name", verbs())
def test_each_verb_has_an_example_that_is_understood(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    assert command.help and f"{EXITS[3]}" in command.epilog
    examples = re.findall(r"Example: (.*)", command.epilog)
    assert examples
    for example in examples:
        words = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", example).split(" > ")[0])
        assert words[:2] == ["tandem", name]
        command.make_context(name, words[2:])
        recipes = re.findall(r"(?:--recipe |\brecipe=)([\w.-]+)", example)
        assert set(recipes) <= {"any", *stems()}


def test_every_program_that_make_asks_has_its_verb() -> None:
    makefile = (ROOT / "Makefile").read_text()
    sources = "".join(each.read_text() for each in (ROOT / "operations/command").glob("*.py"))
    asked = set(re.findall(r"\$\(call ask,(\w+)", makefile)) | {"down"}
    assert len(asked) > 12
    assert {each for each in asked if f'(at, "{each}"' not in sources} == set()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["staus"], "no verb is named `staus`: did you mean `status`?"),
        (["xyzzy"], "no verb is named `xyzzy`: `tandem --help` lists them"),
        (["status", "--jsn"], "No such option: --jsn (Possible options: --json); `tandem status --help`"),
        (["key"], "Missing argument 'name', e.g. `tandem key alice`; `tandem key --help` lists what there is"),
        (["status", "--folder", "nowhere"], "folder: nowhere is no folder; name yours"),
        (["status", "--folder", "~nobody-here/x"], "folder: ~nobody-here/x can't be entered: Could not determine home"),
        (["status", "--inventory", "other.py"], "other.py is no file; name one that says `nodes = [...]`"),
        (["init", "new", "--nodes", "a", "--user", "-x", "--yes"], "--user: `-x` is no login's name; write spark-1"),
        (["down", "--all", "--model", "coder"], "`tandem down --model coder` stops that one"),
    ],
)
def test_what_is_not_understood_is_one_line(off: Path, typed: list[str], said: str, typed_here: Typed) -> None:
    done = typed_here(off, *typed)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_folder_without_an_inventory_is_named(tmp_path: Path, typed_here: Typed) -> None:
    done = typed_here(tmp_path, "status")
    assert done.returncode == 2
    expected = f"folder: no inventory.py is in {tmp_path}; name yours with --folder; `tandem init FOLDER` makes one"
    assert done.stderr == f"tandem: {expected}\n"


@pytest.mark.parametrize(
    ("typed", "said", "remedy"),
    [
        (["topolgy=solo"], "no knob is named `topolgy`", "did you mean `topology`?"),
        (["topology=sollo"], "topology=sollo: expected one of: solo, cluster, replicas", "change `topology`"),
        (["topology", "=", "replicas"], "`topology` is no knob=value", "write topology=replicas"),
        (["topology = replicas"], "`topology = replicas` is no knob=value", "write topology=replicas"),
        (["gpt-oss-120b-mxfp4"], "`gpt-oss-120b-mxfp4` is no knob=value", "did you mean `recipe=gpt-oss-120b-mxfp4`?"),
        (["recipe=gpt-oss"], "recipe=gpt-oss: no such recipe", "did you mean `gpt-oss-120b-mxfp4`?"),
        (["solo"], "`solo` is no knob=value", "did you mean `topology=solo`?"),
        (["something"], "`something` is no knob=value", "write knob=value, without spaces"),
        (["=solo"], "`=solo` is no knob=value", "write knob=value, without spaces"),
    ],
)
def test_knobs_are_checked_before_a_node_is_asked(
    off: Path, typed: list[str], said: str, remedy: str, typed_here: Typed
) -> None:
    refused_at_once(typed_here(off, "apply", *typed), said, remedy)


def test_pyinfra_itself_checks_them_too(off: Path) -> None:
    argv = [sys.executable, "-m", "pyinfra", "-y", str(off / "inventory.py"), "deploy.py", "--data", "topolgy=solo"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    refused_at_once(done, "no knob is named `topolgy`", "did you mean `topology`?")


def refused_at_once(done: subprocess.CompletedProcess[str], said: str, remedy: str) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    assert done.returncode == 2 and said in text and f"-> {remedy}" in text
    assert "does not answer" not in text and "Traceback" not in text


def test_a_wrong_declaration_keeps_nobody_from_asking_how_the_nodes_are(off: Path, typed_here: Typed) -> None:
    (off / "group_data").mkdir()
    (off / "group_data/all.py").write_text('topology = "sollo"\n')
    assert typed_here(off, "plan").returncode == 2
    for verb in ("status", "chat"):
        assert typed_here(off, verb).returncode == 3, verb
    assert typed_here(off, "status", "--data", "topolgy=solo").returncode == 2


def test_nodes_that_are_off_have_a_line_each_and_one_says_what_that_is(off: Path, typed_here: Typed) -> None:
    done = typed_here(off, "status")
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert done.returncode == 3 and len(lines) == 3, done.stderr
    assert lines[0].startswith("spark-1 does not answer") and lines[1].startswith("spark-2 does not answer")
    assert lines[2] == "no node answers"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("inventory.py", "nodes = [(spark-1.local, {})]\n", "inventory.py line 1: SyntaxError: "),
        ("inventory.py", "nodes = []\n", "inventory  names no node"),
        ("inventory.py", 'nodes = [("spark-1", {}), "spark-1"]\n', "`spark-1` is there twice"),
        (
            "inventory.py",
            'nodes = [("spark-1", {"ssh_hostname": "10.0.0.9"}), "10.0.0.9"]\n',
            "`spark-1` and `10.0.0.9` have one address, 10.0.0.9",
        ),
        ("inventory.py", 'nodes = [("me@spark-1", {})]\n', 'write ("spark-1", {"ssh_user": "me"})'),
        ("group_data/all.py", "\ntopology = solo\n", "all.py line 2: NameError: name 'solo' is not defined"),
        ("group_data/all.py", "\ntopology = = 1\n", "all.py line 2: SyntaxError: invalid syntax"),
    ],
)
def test_a_file_that_is_not_right_is_told_by_its_line(
    off: Path, file: str, text: str, said: str, typed_here: Typed
) -> None:
    (off / file).parent.mkdir(exist_ok=True)
    (off / file).write_text(text)
    done = typed_here(off, "plan")
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (off / "pyinfra-debug.log").exists()


def test_a_deploy_names_phases_in_which_something_happens_and_ends_with_a_card(
    tmp_path: Path, typed_here: Typed
) -> None:
    plan = planned(topology="replicas")
    deploy(tmp_path, [{**fresh(plan, name), "served": ""} for name in NAMES], "--dry", "--data", "topology=replicas")
    done = typed_here(tmp_path, "apply", "topology=replicas", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].strip() == "nothing to download; nothing stops"
    assert "Engine | start" in lines and "Model | on the head" not in lines
    assert "-->" not in done.stderr and "No changes" not in done.stderr and "Grand total" not in done.stderr
    card = done.stderr.split("this plan has served")[1]
    assert "  where   http://127.0.0.1:8000/v1\n" in card and "only @fake/spark-1 itself reaches it" in card
    assert "ssh -N -L 8000:127.0.0.1:8000 spark@@fake/spark-1\n" in card
    # No log has the key.
    assert "key     `tandem endpoint` shows it" in card


def test_a_deploy_of_what_serves_already_is_one_line(tmp_path: Path, typed_here: Typed) -> None:
    plan = planned(topology="replicas")
    deploy(tmp_path, [look(plan, name) for name in NAMES], "--dry", "--data", "topology=replicas")
    done = typed_here(tmp_path, "apply", "topology=replicas", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 0
    assert done.stderr == "nothing has changed: http://127.0.0.1:8000/v1 serves nemotron\n"
    done = typed_here(tmp_path, "upgrade", "topology=replicas", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "nothing would change"


def test_an_upgrade_says_what_would_change_and_does_nothing_without_a_yes(tmp_path: Path, typed_here: Typed) -> None:
    plan = planned(topology="replicas")
    deploy(tmp_path, [fresh(plan, name) for name in NAMES], "--dry", "--data", "topology=replicas")
    at = ["topology=replicas", "--inventory", str(tmp_path / "nodes.py")]
    done = typed_here(tmp_path, "upgrade", *at)
    assert "engines that would start anew: tandem-engine on @fake/spark-1" in done.stdout
    assert done.returncode == 2 and "nobody is there to be asked; `--yes` does it without asking" in done.stderr
    assert "Engine | start" not in done.stderr
    assert "Engine | start" in typed_here(tmp_path, "upgrade", "--yes", *at).stderr


def test_what_fails_ends_with_one(tmp_path: Path, typed_here: Typed) -> None:
    plan = planned(topology="replicas")
    failing = {NAMES[1]: ["network.proof:prove"]}
    deploy(tmp_path, [fresh(plan, name) for name in NAMES], "--dry", "--data", "topology=replicas", failing=failing)
    done = typed_here(tmp_path, "apply", "topology=replicas", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 1 and "where   http" not in done.stderr and "nothing has changed" not in done.stderr


def test_programs_read_how_the_nodes_are(tmp_path: Path, typed_here: Typed) -> None:
    row = {"unit": "tandem-engine", "state": "active", "health": "answers"}
    told = {"look.status": {"rows": [row], "old_images": [], "away": {}, "alone": "", "topology": "solo"}}
    deploy(tmp_path, [look(planned(topology="solo"), NAMES[0])], "--dry", programs=told)
    done = typed_here(tmp_path, "status", "--json", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["nodes"][NAMES[0]]["rows"] == [row] and found["absent"] == []


def test_who_ends_it_is_told_so_by_the_exit_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        (tmp_path / "inventory.py").write_text(
            f'nodes = [("spark-1", {{"ssh_hostname": "127.0.0.1", "ssh_port": {port}}})]\n'
        )
        # What a shell starts in the background ignores Ctrl-C, and so would this.
        argv = ["env", "--default-signal=INT", sys.executable, "-m", "operations.command", "status"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(argv, cwd=tmp_path, env=environment, start_new_session=True)
        connection, _ = deaf.accept()
        with connection:
            time.sleep(0.5)
            # As a terminal does: to all of them.
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=60) == 130


def test_the_manual_has_every_verb_as_it_is() -> None:
    from operations.command.verbs_page import page

    assert (ROOT / "docs/verbs.md").read_text() == page(), "make manual-pages"


def test_a_shell_completes_a_verb(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_TANDEM_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": "tandem statu", "COMP_CWORD": "1"}
    argv = [sys.executable, "-m", "operations.command"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["status"]


def test_everything_is_listed_before_it_is_removed_and_asked(tmp_path: Path, typed_here: Typed) -> None:
    things = [
        {"what": "model org/model in /hub", "bytes": 75_200_000_000},
        {"what": "/etc/tandem: settings", "bytes": 9},
    ]
    told = {
        "unit.everything": {"things": things, "stays": ["model org/kept in /hub stays: it is pinned"], "problems": []},
        "unit.services": {"units": {}, "strays": []},
    }
    plan = planned(topology="solo")
    deploy(tmp_path, [look(plan, NAMES[0])], "--dry", "--data", "topology=solo", programs=told)
    done = typed_here(tmp_path, "down", "--all", "--inventory", str(tmp_path / "nodes.py"))
    assert done.returncode == 2 and "nobody is there to be asked" in done.stderr
    assert done.stdout.splitlines()[:3] == [
        NAMES[0],
        "    75.2 GB  model org/model in /hub",
        "          -  /etc/tandem: settings",
    ]
    assert f"note: {NAMES[0]}: model org/kept in /hub stays: it is pinned" in done.stderr
    assert "together 75.2 GB; the engines and proxies stop" in done.stdout


def test_logs_are_told_by_node(tmp_path: Path, typed_here: Typed) -> None:
    deploy(tmp_path, [look(planned(topology="solo"), NAMES[0])], "--dry", "--data", "topology=solo")
    nodes = tmp_path / "nodes.py"
    said = "nodes[0][1]['fake_responses'][re.compile('journalctl .*--lines 7')] = '2026-11-26 engine: loading'\n"
    nodes.write_text(nodes.read_text() + said)
    done = typed_here(tmp_path, "logs", "--lines", "7", "--inventory", str(nodes))
    assert done.returncode == 0 and done.stdout == f"{NAMES[0]} 2026-11-26 engine: loading\n", done.stderr


def test_without_a_verb_the_help_is_all(tmp_path: Path) -> None:
    done = tandem(tmp_path)
    assert done.returncode == 2 and "apply" in done.stdout + done.stderr
    assert "tandem: ;" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (["bench", "--for", "soon"], 2, "bench: --for: `soon` is no time to measure for; 30s to 24h, e.g. 30m"),
        (["bench", "--from", "moon"], 2, "bench: --from: no place is named `moon`; one of: controller, head"),
        (["bench", "--run", "nowhere"], 2, "bench: nowhere: there is no such folder"),
        (["bench", "topolgy=solo"], 2, "no knob is named `topolgy`"),
        (["bench"], 3, "bench: nodes: spark-1 does not answer"),
        (["advise", "users=0"], 2, "advise: load: users=`0` is no number of users"),
        (
            ["advise"],
            2,
            "tandem: Missing argument 'load', e.g. `tandem advise \"8 users chat ttft=2s\"`; `tandem advise",
        ),
        (
            ["advise", "8 users", "--nodes", "none"],
            2,
            "advise: --nodes: `none` is no number of nodes; 1 to 99, e.g. --nodes 2",
        ),
        (["advise", "8 users", "--recipe", "gpt-os"], 2, "advise: --recipe: no recipe is named `gpt-os`"),
        (["report", "nowhere"], 2, "report: nowhere: there is no such folder"),
        (["report", "--figures", "decod"], 2, "report: --figures: no figure is named `decod`"),
        (["key", "Alice"], 2, "tandem: key: 'Alice' is no name for a key"),
        (["key", "alice", "--expires", "soon"], 2, "tandem: key: --expires 'soon' is no time"),
        (["key", "alice", "--tokens", "0"], 2, "tandem: key: --tokens '0' is no limit"),
        (["key-revoke", "owner"], 2, "tandem: key: 'owner' is what the log calls somebody else"),
        (["key", "alice"], 3, "no node answers"),
        (["keys"], 3, "no node answers"),
        (["key-revoke", "alice"], 3, "no node answers"),
        (["recipes", "gpt-os"], 2, "no recipe is named `gpt-os`"),
        (["recipes", "--dir", "nowhere"], 2, "nowhere is no folder"),
        (["recipes", "--fetch", "https://example.com/x"], 2, "that is no public repository at a commit"),
        (["recipes", "--fetch", f"file:///nowhere@{'0' * 40}"], 1, "/nowhere"),
    ],
)
def test_what_ends_badly_names_what_was_typed_and_how_is_documented(
    off: Path, typed: list[str], code: int, said: str, typed_here: Typed
) -> None:
    done = typed_here(off, *typed)
    assert done.returncode == code and said in done.stderr and done.stdout == "", done.stderr
    assert "Traceback" not in done.stderr and not re.search(r"\b[A-Z]{3,}=", done.stderr)


@pytest.mark.parametrize("typed", [["advise", "8 users chat"], ["recipes"], ["recipes", "gpt-oss-120b-mxfp4"]])
def test_what_needs_no_node_ends_well_where_all_are_off(off: Path, typed: list[str], typed_here: Typed) -> None:
    done = typed_here(off, *typed)
    assert done.returncode == 0 and done.stdout and done.stderr == ""


@pytest.mark.parametrize("name", verbs())
def test_the_help_of_each_verb_runs_and_has_its_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:

    assert main([name, "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    assert len(examples := re.findall(r"Example: (.*)", command.epilog)) == told.count("Example: ") >= 1
    # As wide as the terminal: the words, whatever the lines.
    assert all(word in told for example in examples for word in example.split())


def test_two_names_of_one_address_are_refused_before_the_first_ssh(tmp_path: Path, typed_here: Typed) -> None:
    done = typed_here(tmp_path, "init", "new", "--nodes", "127.0.0.1,127.1", "--user", "me", "--yes")
    said = "nodes: `127.0.0.1` and `127.1` have one address, 127.0.0.1; name each Spark once, the head first\n"
    assert done.returncode == 2 and done.stderr == said
    assert not (tmp_path / "new").exists()


def test_a_report_without_its_package_says_how_it_comes(off: Path) -> None:
    program = (
        "import importlib.util, sys; find = importlib.util.find_spec; "
        "importlib.util.find_spec = lambda name: None if name == 'matplotlib' else find(name); "
        "from operations.command.app import main; sys.exit(main(['report']))"
    )
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], cwd=off, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "report: the package matplotlib is not installed; `" in done.stderr
    assert f"-r {ROOT}/requirements-bench.lock`" in done.stderr


def test_a_model_s_unknown_node_is_refused_before_a_node_is_asked(off: Path, typed_here: Typed) -> None:
    model = '{"recipe": "gpt-oss-120b-mxfp4", "topology": "solo", "nodes": ["spark-9"]}'
    (off / "group_data").mkdir()
    (off / "group_data/all.py").write_text(f'models = {{"chat": {model}}}\n')
    done = typed_here(off, "apply")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    assert done.returncode == 2 and "no node of the inventory is named `spark-9`" in text, text
    assert "did you mean `spark-1`?" in text or "did you mean `spark-2`?" in text


def test_advice_is_for_as_many_sparks_as_the_folder_has(tmp_path: Path, typed_here: Typed) -> None:
    (tmp_path / "inventory.py").write_text(f"nodes = {[f'spark-{number}' for number in range(1, 5)]}\n")
    done = typed_here(tmp_path, "advise", "8 users chat")
    assert done.returncode == 0 and "on 4 Sparks" in done.stdout and done.stderr == ""
    assert "on 2 Sparks" in typed_here(tmp_path, "advise", "8 users chat", "--nodes", "2").stdout
    (tmp_path / "inventory.py").write_text("nodes = [each for each in ()]\n")
    done = typed_here(tmp_path, "advise", "8 users chat")
    assert "on 2 Sparks" in done.stdout and "no plain list of nodes: two Sparks, unless --nodes says" in done.stderr


def test_advice_needs_no_folder_and_says_what_it_takes_instead(tmp_path: Path, typed_here: Typed) -> None:
    done = typed_here(tmp_path, "advise", "8 users chat")
    assert done.returncode == 0 and "nemotron-3-super-nvfp4-auto on 2 Sparks" in done.stdout
    said = "note: no folder of yours is here: two Sparks and the default recipe, unless you say others\n"
    assert done.stderr == said
    # What is named has to be there, and who measures has nodes.
    for words in (("advise", "8 users", "-C", "new"), ("bench",)):
        done = typed_here(tmp_path, *words)
        assert done.returncode == 2 and done.stderr.startswith("tandem: folder: ")
