"""`tandem init` as it is seen: a laptop at a terminal, factory Sparks with a real sshd, a real responder of mDNS."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.init.stage import CTRL_C, CTRL_D, Stage

#: What is asked of nodes that let us in.
QUESTIONS = (
    ("Which, the head first", ""),
    ("1. Number or name", "chat"),
    ("2. Number or word", "home"),
    ("3. How many", "4"),
    ("Write .* \\[Y/n\\]", ""),
)
#: What a factory Spark wants, the first one a key too.
MENDS = (
    ("fingerprint|Run it", "y"),
    # The answer to the question before, once too often.
    ("Your login on spark-1", "y"),
    ("is no login's name[^:]*Your login on spark-1", "me"),
    ("ssh-keygen -t ed25519[^$]*Run it", "y"),
    ("Enter passphrase", ""),
    ("same passphrase", ""),
    ("ssh-copy-id me@10.77.0.11[^$]*Run it", "y"),
    ("password: ", "sesame"),
    ("sudo sh -c[^$]*Run it", "y"),
    ("password for me", "sesame"),
    ("ssh-keyscan .*10.77.0.12[^$]*Run it", "y"),
    ("ssh-copy-id me@10.77.0.12[^$]*Run it", "y"),
    ("password: ", "sesame"),
    ("sudo sh -c[^$]*Run it", "y"),
    ("password for me", "sesame"),
)
NODES = "spark-1.local,spark-2.local"
TOLD = ("--for", "chat", "--reach", "home", "--people", "4")


def knobs(stage: Stage) -> dict[str, object]:
    return runpy.run_path(str(stage.folder / "group_data/all.py"))


def nodes(stage: Stage) -> object:
    return runpy.run_path(str(stage.folder / "inventory.py"))["nodes"]


def test_two_factory_sparks_become_an_owner_s_folder(factory: Stage) -> None:
    """Found by mDNS, host key, key, sudo: each mend with its command, and only on yes. Without Avahi the addresses are
    written down.
    """
    ran = factory.run(str(factory.folder), typed=[QUESTIONS[0], *MENDS, *QUESTIONS[1:]])
    assert ran.code == 0, ran.text
    assert nodes(factory) == [
        ("spark-1.local", {"ssh_hostname": "10.77.0.11", "ssh_user": "me"}),
        ("spark-2.local", {"ssh_hostname": "10.77.0.12", "ssh_user": "me"}),
    ]
    set_ = {name: value for name, value in knobs(factory).items() if not name.startswith("__")}
    assert set_ == {
        "_sudo": True,
        "recipe": "nemotron-3-super-nvfp4-auto",
        "topology": "cluster",
        "proxy_bind": "management",
        "monitoring": "metrics",
    }
    assert "pyinfra-debug.log" in (factory.folder / ".gitignore").read_text()
    rule = factory.place / "spark-1/sudoers.d/tandem-me"
    assert rule.read_text() == "me ALL=(ALL) NOPASSWD: ALL\n"
    assert rule.stat().st_mode & 0o777 == 0o440
    # The fingerprint that was shown is the one that the Spark would show.
    shown = re.findall(r"SHA256:\S+", ran.text)
    key = os.popen(f"ssh-keygen -lf {factory.place}/spark-1/key.pub").read()
    assert shown[0] in key
    assert "download   75 GB of model" in ran.text and "Traceback" not in ran.text


def test_a_mend_that_nobody_wants_changes_nothing(factory: Stage) -> None:
    ran = factory.run(
        str(factory.folder), "--nodes", "spark-1.local", typed=[("Run it", "n"), ("Write the folder all the same", "n")]
    )
    assert ran.code == 1, ran.text
    assert "not ready: spark-1.local" in ran.text
    assert not (factory.place / "laptop/.ssh/known_hosts").exists() and not factory.folder.exists()


@pytest.mark.parametrize("place", range(len(QUESTIONS)))
@pytest.mark.parametrize("word", [CTRL_C, CTRL_D])
def test_who_breaks_off_at_a_question_has_nothing_half_written_and_the_command_that_goes_on(
    ready: Stage, place: int, word: str
) -> None:
    typed = [*QUESTIONS[:place], (QUESTIONS[place][0], word)]
    ran = ready.run(str(ready.folder), "--user", "me", typed=typed)
    assert ran.code == (130 if word == CTRL_C else 2), ran.text
    assert not ready.folder.exists()
    assert [each.name for each in ready.place.iterdir() if each.name.startswith(".tandem")] == []
    line = next(line for line in ran.text.splitlines() if "nothing was written" in line)
    assert "Traceback" not in ran.text
    if place == 3 and word == CTRL_C:
        # What was answered is not asked again.
        words = shlex.split(line.partition("Go on: ")[2])[2:]
        assert words[1:] == ["--nodes", NODES, "--user", "me", "--for", "chat", "--reach", "home"]
        assert ready.run(*words, typed=QUESTIONS[3:]).code == 0


@pytest.mark.parametrize("place", [0, 1, 3, 8])
def test_ctrl_c_at_a_mend_leaves_the_folder_alone(factory: Stage, place: int) -> None:
    typed = [QUESTIONS[0], *MENDS[:place], (MENDS[place][0], CTRL_C)]
    ran = factory.run(str(factory.folder), typed=typed)
    assert ran.code == 130 and not factory.folder.exists(), ran.text
    assert "Traceback" not in ran.text


def test_a_wrong_answer_is_one_line_and_the_question_comes_again(ready: Stage) -> None:
    typed = [
        ("Which", "spark 1,,@"),
        ("is no login's name.*\n.*Which", "spark-1.local, spark-1.local"),
        ("is there twice.*\n.*Which", "1,2"),
        ("1. Number", "9"),
        ("`9` is none of them.*\n.*Number", "gpt-oss-120b-mxfp5"),
        ("did you mean `gpt-oss-120b-mxfp4`.*\n.*Number", "nemotron-3-ultra-nvfp4"),
        ("needs 4 Sparks, here are 2.*\n.*Number", "2"),
        ("2. Number", "everybody"),
        ("`everybody` is none of them.*\n.*Number", "home"),
        ("3. How many", "some"),
        ("`some` is no number of people.*\n.*How many", "4 people"),
        ("Write", "perhaps"),
        ("y or n.*\n.*Write", "y"),
    ]
    ran = ready.run(str(ready.folder), "--user", "me", typed=typed)
    assert ran.code == 0, ran.text
    assert knobs(ready)["recipe"] == "gpt-oss-120b-mxfp4"


def test_without_a_terminal_flags_say_it_and_again_nothing_changes(ready: Stage) -> None:
    first = ready.pipe(str(ready.folder), "--nodes", "me@spark-1.local,me@spark-2.local", *TOLD)
    assert first.code == 0, first.text
    assert nodes(ready) == [("spark-1.local", {"ssh_user": "me"}), ("spark-2.local", {"ssh_user": "me"})]
    before = {each: each.stat().st_ino for each in ready.folder.rglob("*")}
    again = ready.pipe(str(ready.folder), *TOLD)
    assert again.code == 0 and "nothing was changed" in again.text
    assert {each: each.stat().st_ino for each in ready.folder.rglob("*")} == before


def test_again_only_what_is_asked_changes(ready: Stage) -> None:
    ready.pipe(str(ready.folder), "--nodes", NODES, "--user", "me", *TOLD)
    all_py, inventory = ready.folder / "group_data/all.py", ready.folder / "inventory.py"
    all_py.write_text(all_py.read_text().replace('"metrics"', '"prometheus"') + "\n# Mine.\nproxy_port = 8080  # why\n")
    inventory.write_text(f"{inventory.read_text()}\n# A note of mine.\n")
    kept = inventory.read_text()
    ran = ready.pipe(str(ready.folder), "--reach", "this")
    assert ran.code == 0, ran.text
    assert inventory.read_text() == kept
    assert knobs(ready)["proxy_bind"] == "loopback" and knobs(ready)["monitoring"] == "prometheus"
    assert all_py.read_text().endswith("# Mine.\nproxy_port = 8080  # why\n")
    assert ready.pipe(str(ready.folder), "--nodes", "spark-2.local").code == 0
    assert nodes(ready) == [("spark-2.local", {"ssh_user": "me"})] and inventory.read_text().endswith("of mine.\n")
    # One node can't be a cluster.
    assert knobs(ready)["topology"] == "solo"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--nodes", "me@@x"), 2, "nodes: `me@@x`: `me@` is no login's name; write spark-1.local"),
        (("--nodes", "spark-1.local,SPARK-1.local"), 2, "is there twice; name each Spark once, the head first"),
        (("--nodes", NODES, "--for", "chats"), 2, "--for: `chats` is no purpose; did you mean `chat`?"),
        (("--nodes", NODES, "--reach", "hom"), 2, "--reach: `hom` is no choice; did you mean `home`?"),
        (
            ("--nodes", NODES, "--reach", "sea"),
            2,
            "one of `this`: only the Sparks themselves (by ssh from elsewhere); `h",
        ),
        (("--nodes", NODES, "--people", "0"), 2, "tandem: Invalid value for '--people'"),
        (("--nodes", NODES, "--model", "gpt-oss"), 2, "recipe=gpt-oss: no such recipe; "),
        (("--nodes", NODES, "--model", "lab-tiny-llama"), 2, "--model: `lab-tiny-llama` is the lab's own"),
        (("--nodes", NODES, "--model", "x", "--for", "chat"), 2, "--model: and --for both choose the model"),
        (
            ("--nodes", "nobody.local"),
            3,
            "nobody.local does not answer: nobody has the name nobody.local; switch it",
        ),
        (
            ("--nodes", "10.77.0.77"),
            3,
            "10.77.0.77 does not answer (no route to it); switch it on (a Spark that sleeps",
        ),
        (("--nodes", "10.77.0.1"), 3, "10.77.0.1 does not answer (connection refused); on it: sudo systemctl enable"),
        (("--nodes", "you@spark-1.local"), 1, "spark-1.local refuses the login you; ssh-copy-id you@spark-1.local"),
        (
            ("--nodes", "me@spark-1.local,me@10.77.0.11"),
            2,
            "`spark-1.local` and `10.77.0.11` have one address, 10.77.0.11; name each Spark once",
        ),
        ((), 2, "nodes: which of these, and which is the head?; --nodes names them"),
    ],
)
def test_what_can_t_be_is_one_line_without_a_terminal(
    ready: Stage, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = ready.pipe(str(ready.folder), *words)
    assert said in ran.text and ran.code == code, ran.text
    assert not ready.folder.exists() and "Traceback" not in ran.text
    assert len([line for line in ran.text.splitlines() if said in line]) == 1


def test_one_that_is_asleep_is_told_and_the_other_one_is_tried_too(ready: Stage) -> None:
    ran = ready.pipe(str(ready.folder), "--nodes", "me@10.77.0.99,me@spark-2.local", *TOLD)
    assert "10.77.0.99 does not answer" in ran.text and "spark-2.local: ok" in ran.text
    assert ran.code == 1 and "not ready: 10.77.0.99" in ran.text


def test_another_host_key_is_told_and_not_taken(ready: Stage) -> None:
    known = ready.place / "laptop/.ssh/known_hosts"
    other = known.read_text().split("\n")
    known.write_text(f"{other[0].split(' ', 1)[0]} {other[1].split(' ', 1)[1]}\n")
    ran = ready.pipe(str(ready.folder), "--nodes", "me@spark-1.local", *TOLD)
    assert (
        "shows another host key than the known one; if it was installed anew: ssh-keygen -R spark-1.local" in ran.text
    )
    assert ran.code == 1 and not ready.folder.exists()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RESPONDER": ""}, "no Spark is found by mDNS (nobody answers)"),
        ({"NO_NETWORK": "1"}, "this machine has no network (Network is unreachable)"),
    ],
)
def test_no_network_or_nobody_who_answers_asks_for_names(
    factory: Stage, environment: dict[str, str], said: str
) -> None:
    if "NO_NETWORK" in environment:
        factory.nodes = ()
        environment = {**environment, "RESPONDER": ""}
    ran = factory.run(str(factory.folder), typed=[("Names or addresses", CTRL_C)], **environment)
    assert ran.code == 130 and said in ran.text, ran.text
    ran = factory.pipe(str(factory.folder), **environment)
    assert ran.code == 2 and said in ran.text and "--nodes names them" in ran.text, ran.text


def test_a_host_that_offers_ssh_is_found_by_that_too(factory: Stage) -> None:
    factory.nodes = ("gx10-ab12",)
    ran = factory.run(str(factory.folder), typed=[("Which", CTRL_C)], SERVICE="1")
    assert "1  gx10-ab12.local  10.77.0.11" in ran.text


def test_a_folder_of_somebody_else_is_not_touched(ready: Stage) -> None:
    ready.folder.mkdir()
    (ready.folder / "thesis.tex").write_text("mine")
    ran = ready.pipe(str(ready.folder), "--nodes", NODES, *TOLD)
    assert ran.code == 2 and f"{ready.folder}: has other things in it (thesis.tex); name a folder" in ran.text
    assert [each.name for each in ready.folder.iterdir()] == ["thesis.tex"]


def test_the_folder_may_be_the_current_one_with_git_in_it(ready: Stage, tmp_path: Path) -> None:
    (ready.folder / ".git").mkdir(parents=True)
    ran = ready.run(".", "--nodes", NODES, "--user", "me", typed=QUESTIONS[1:], cwd=ready.folder)
    assert ran.code == 0 and "Next: tandem apply" in ran.text, ran.text
    assert sorted(each.name for each in ready.folder.iterdir()) == [".git", ".gitignore", "group_data", "inventory.py"]


def test_a_typed_name_that_only_mdns_knows_is_written_with_its_address(ready: Stage) -> None:
    (ready.place / "etc/hosts").write_text("127.0.0.1 localhost\n")
    ran = ready.pipe(str(ready.folder), "--nodes", "me@spark-2.local", *TOLD)
    assert ran.code == 0, ran.text
    assert nodes(ready) == [("spark-2.local", {"ssh_hostname": "10.77.0.12", "ssh_user": "me"})]


def test_a_spark_that_is_the_controller_itself_is_written_with_its_address_on_the_network(ready: Stage) -> None:
    """As Debian and Ubuntu have it: a machine's own name is 127.0.1.1, where nobody else would find it."""
    (ready.place / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 spark-1 spark-1.local\n")
    ready.nodes = ("spark-1",)
    typed = [("10.77.0.1 >> ~/.ssh/known_hosts\n *Run it", "y"), *QUESTIONS[1:]]
    ran = ready.run(
        str(ready.folder), "--nodes", "spark-1.local", "--user", "me", typed=typed, LISTEN="0.0.0.0", RESPONDER=""
    )
    assert ran.code == 0, ran.text
    assert "spark-1.local: reached itself; its address on your network is 10.77.0.1" in ran.text
    assert nodes(ready) == [("spark-1.local", {"ssh_hostname": "10.77.0.1", "ssh_user": "me"})]
    assert knobs(ready)["topology"] == "solo"


def test_another_address_of_the_same_machine_has_its_host_key_accepted_too(ready: Stage) -> None:
    """Both are unknown: the one that is reached itself, and the one on the network."""
    (ready.place / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 spark-1 spark-1.local\n")
    (ready.place / "laptop/.ssh/known_hosts").write_text("")
    ready.nodes = ("spark-1",)
    accepts = [("spark-1.local >> ~/.ssh/known_hosts\n *Run it", "y"), ("10.77.0.1 >> [^$]*Run it", "y")]
    words = (str(ready.folder), "--nodes", "spark-1.local", "--user", "me")
    ran = ready.run(*words, typed=[*accepts, *QUESTIONS[1:]], LISTEN="0.0.0.0", RESPONDER="")
    assert ran.code == 0, ran.text


def test_a_folder_that_has_the_nodes_needs_no_flag_to_go_on(ready: Stage) -> None:
    """Their addresses are in it, and a name alone would not have them."""
    assert ready.pipe(str(ready.folder), "--nodes", NODES, "--user", "me", *TOLD).code == 0
    inventory = ready.folder / "inventory.py"
    inventory.write_text(
        'nodes = [("one", {"ssh_hostname": "10.77.0.11", "ssh_user": "me"}),'
        ' ("two", {"ssh_hostname": "10.77.0.99", "ssh_user": "me"})]\n'
    )
    ran = ready.pipe(str(ready.folder))
    assert (
        ran.code == 1 and f"not ready: two; {ready.folder} is as it was. Then: tandem init {ready.folder}" in ran.text
    )
    assert "--nodes" not in ran.text.partition("Then: ")[2]


def test_the_office_is_home(ready: Stage) -> None:
    told = ("--for", "chat", "--reach", "Office", "--people", "4")
    assert ready.pipe(str(ready.folder), "--nodes", NODES, "--user", "me", *told).code == 0
    assert knobs(ready)["proxy_bind"] == "management"
