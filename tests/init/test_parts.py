"""Parts of `tandem init`: words that are typed, what a node says of itself, answers to mDNS, cables, costs."""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from operations.init import find, knock, mdns, nodes
from operations.init import plan as planned
from operations.init.answers import Answers, check_fits, reach_of, recipe
from operations.init.ask import Asker
from operations.init.cables import cables
from operations.init.folder import Owned
from operations.init.knock import why
from operations.init.login import Login, parse, parse_all
from operations.init.mends import accept, allow_sudo, copy_key
from operations.init.nodes import _login_name, which
from operations.init.questions import Flags
from operations.init.seen import Seen, read
from operations.plan.config.refusal import Refusal
from operations.plan.cost import cost, lasting
from operations.plan.recipes.picks import PICKS
from operations.verbs.recipe_table import shipped
from tests.init import responder


@pytest.mark.parametrize(
    ("typed", "login"),
    [
        ("spark-1.local", Login("spark-1.local")),
        ("me@spark-1.local", Login("spark-1.local", "me")),
        ("me@192.168.1.20:2222", Login("192.168.1.20", "me", port=2222)),
        ("fe80::1%enp1s0f0np0", Login("fe80::1%enp1s0f0np0")),
    ],
)
def test_a_login_is_read_as_ssh_takes_it(typed: str, login: Login) -> None:
    assert parse(typed) == login
    assert parse(login.spelled()) == login


@pytest.mark.parametrize(
    "typed", ["", "@x", "a b", "-oProxyCommand=x", "x;reboot", "a@b@c", "x:99999", "ssh://x", "me@"]
)
def test_what_is_no_login_is_refused_and_never_a_flag_of_ssh(typed: str) -> None:
    with pytest.raises(Refusal, match="write spark-1"):
        parse(typed)


def test_a_login_is_no_answer_of_yes_or_no_unless_it_is_the_one_that_ssh_takes() -> None:
    with pytest.raises(Refusal, match="where it is that, name the node `no@spark-1"):
        _login_name(Login("spark-1.local", "me"), "no")
    assert _login_name(Login("spark-1.local", "no"), "no") == "no"


def test_a_port_and_an_address_are_in_the_inventory_where_they_differ() -> None:
    assert Login("a").entry() == ("a", {})
    login = Login("a", "me", "10.0.0.1", 2222, (("fabric_interfaces", ["x", "y"]),))
    assert login.entry()[1] == {
        "ssh_hostname": "10.0.0.1",
        "ssh_user": "me",
        "ssh_port": 2222,
        "fabric_interfaces": ["x", "y"],
    }


def test_a_mend_s_command_is_what_runs() -> None:
    """Each is copied to a shell as it is shown."""
    login = Login("spark-1.local", "me", port=2222)
    assert copy_key(login).command == "ssh-copy-id -p 2222 me@spark-1.local"
    words = shlex.split(allow_sudo(login).command)
    assert words[:5] == ["ssh", "-t", "-p", "2222", "me@spark-1.local"]
    inner = shlex.split(words[5])
    assert inner[:3] == ["sudo", "sh", "-c"] and len(inner) == 4
    line = subprocess.run(["sh", "-c", inner[3].split(";")[1].split(">")[0]], capture_output=True, text=True).stdout
    assert line == "me ALL=(ALL) NOPASSWD: ALL\n"


SAID = """\
Welcome to a login that prints
tandem:host spark-1.lan
tandem:id 0123
tandem:product NVIDIA_DGX_Spark
tandem:mib 124610
tandem:disk 3500
tandem:in 192.168.177.11
tandem:net docker0 1
tandem:net enP2p1s0f0np0 1 mlx5_core
tandem:net enP7s7 1 r8127
tandem:net enp1s0f0np0 0 mlx5_core
tandem:net enp1s0f1np1 0 mlx5_core
tandem:addr lo inet 127.0.0.1/8
tandem:addr docker0 inet 172.17.0.1/16
tandem:addr enP2p1s0f0np0 inet 192.168.177.11/24
tandem:addr enP7s7 inet 192.168.1.20/24
tandem:addr enP7s7 inet6 fe80::2/64
tandem:sudo yes
"""


def test_what_a_node_says_is_read_and_a_login_over_the_cable_is_known() -> None:
    seen = read(SAID)
    assert seen is not None and seen.host == "spark-1" and seen.sudo and round(seen.memory_gib, 1) == 121.7
    assert seen.ports == {"f0np0": True, "f1np1": False}
    assert seen.by_rail and seen.office == "192.168.1.20"
    assert not read(SAID.replace("in 192.168.177.11", "in 192.168.1.20")).by_rail  # type: ignore[union-attr]
    assert read(SAID.replace("in 192.168.177.11", "in 127.0.1.1")).by_rail  # type: ignore[union-attr]
    assert read("bash: sh: command not found\n") is None


def test_look_says_it_of_this_machine_too() -> None:
    look = Path(find.__file__).parent / "look.sh"
    seen = read(subprocess.run(["sh"], input=look.read_text(), capture_output=True, text=True, check=True).stdout)
    assert seen is not None and seen.memory_gib > 0.5 and seen.host == os.uname().nodename.partition(".")[0]


def _seen(**ports: bool) -> Seen:
    return Seen(ports=ports)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([("a", _seen(p0=False))], "One Spark needs no QSFP cable."),
        ([("a", _seen(p0=True)), ("b", _seen(p1=True))], "Cable: live at both ends (a: port p0; b: port p1)."),
        ([("a", _seen(p0=True)), ("b", _seen(p0=False))], "No cable is live on b. Plug one cable from a QSFP port"),
        ([("a", _seen(p0=True)), ("b", Seen())], "No QSFP port shows on b: a cable that is out may take"),
        ([(name, _seen(p0=False, p1=False)) for name in "abc"], "No cable is live on a, b, c. Plug a cable from each"),
        ([(name, _seen(p0=True, p1=True)) for name in "abc"], "Cables: live on both ports of all three, a ring or"),
        ([(name, _seen(p0=True, p1=False)) for name in "abcd"], "they go to one switch."),
    ],
)
def test_cables(nodes: list[tuple[str, Seen]], said: str) -> None:
    (line,) = cables(nodes)
    assert said in line


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Host key verification failed.", "unknown host key"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "other host key"),
        ("me@x: Permission denied (publickey,password).", "login"),
        ("Received disconnect: Too many authentication failures", "login"),
        ("ssh: Could not resolve hostname x: Name or service not known", "away"),
        ("ssh: connect to host x port 22: No route to host", "away"),
        ("ssh: connect to host x port 22: Host is down", "away"),
        ("ssh: connect to host x port 22: Connection timed out", "away"),
        ("ssh: connect to host x port 22: Operation timed out", "away"),
        ("kex_exchange_identification: Connection closed by remote host", "away"),
        ("Bad owner or permissions on /root/.ssh/config", "other"),
        ("", "other"),
    ],
)
def test_what_ssh_says_is_told_in_an_owner_s_words(said: str, kind: str) -> None:
    """In OpenSSH's words of Linux and macOS."""
    found, problem, remedy = why(Login("x", "me"), said)
    assert found == kind and problem and remedy and "{" not in problem + remedy


def test_an_answer_of_mdns_is_read_and_a_broken_one_is_nothing() -> None:
    asked = next(mdns.questions("10.77.0.1"))
    assert list(mdns.told(asked)) == []
    answer = responder.answer(asked, "spark-1.local", "10.77.0.11")
    assert list(mdns.told(answer)) == [("spark-1.local", "10.77.0.11")]
    for cut in range(len(answer)):
        assert list(mdns.told(answer[:cut])) == []
    for name in ("-oproxycommand=x.local", "a\x1b[31m.local", "a b.local", "nas.lan"):
        asked = struct.pack(">6H", 0, 0, 1, 0, 0, 0) + responder.encoded(name) + struct.pack(">2H", 1, 1)
        assert list(mdns.told(responder.answer(asked, name, "10.77.0.11"))) == []


def test_a_name_that_points_to_itself_ends() -> None:
    header = struct.pack(">6H", 0, 0x8400, 0, 1, 0, 0)
    assert list(mdns.told(header + b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + b"\1\2\3\4")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")
def test_the_other_end_of_a_cable_is_found_by_its_link_local_address() -> None:
    """Two namespaces with one wire, called as a Spark's: no address is set on it, as on a factory Spark."""
    script = """
    set -e
    ip link set lo up
    ip netns add other
    ip link add enp1s0f0np0 type veth peer name enp1s0f0np0 netns other
    ip link set enp1s0f0np0 up
    ip -n other link set lo up
    ip -n other link set enp1s0f0np0 up
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        ip addr show enp1s0f0np0 | grep -q tentative || ip -n other addr show enp1s0f0np0 | grep -q tentative || break
        sleep 0.3
    done
    ip -n other -o -6 addr show dev enp1s0f0np0
    echo ---
    "$1" -c 'from operations.init.find import neighbours, rails; print(rails(), *neighbours("enp1s0f0np0"))'
    """
    spaces = ["unshare", "-n", "-m", "--propagation", "private", "sh", "-c"]
    mounts = "mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; mount -t sysfs sysfs /sys;"
    root = Path(find.__file__).parents[2]
    ran = subprocess.run(
        [*spaces, mounts + script, "sh", sys.executable],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        timeout=60,
    )
    there, _, found = ran.stdout.partition("---\n")
    address = next(word for word in there.split() if word.startswith("fe80")).partition("/")[0]
    assert found == f"['enp1s0f0np0'] {address}%enp1s0f0np0\n", ran.stderr


def test_each_pick_is_a_recipe_that_comes_with_tandem_for_what_it_says() -> None:
    for pick in PICKS:
        found = recipe(pick.recipe)
        check_fits(found, 1)
        assert planned.topology(found, Answers(pick.recipe, pick, "home", 4), 1) == ("solo", 1)
        assert planned.topology(found, Answers(pick.recipe, pick, "home", 40), 2)[0] != "solo"
    # Nobody has published more tokens a second of another recipe.
    most = max(shipped(), key=lambda each: max((figure.tokens_per_second for figure in each.figures), default=0))
    assert most.name == PICKS[3].recipe


def test_a_recipe_for_more_nodes_is_refused_with_the_number() -> None:
    with pytest.raises(Refusal, match="needs 4 Sparks, here are 2"):
        check_fits(recipe("nemotron-3-ultra-nvfp4"), 2)
    with pytest.raises(Refusal, match="needs 2 Sparks, here is 1"):
        check_fits(recipe("qwen3.8-flash-next-nvfp4"), 1)


def test_a_plan_s_cost_is_the_recipe_s() -> None:
    costs = cost(recipe("gpt-oss-120b-mxfp4"), "cluster", 2)
    assert (round(costs.model_gb, 1), round(costs.image_gb, 1)) == (65.5, 26.8)
    assert round(costs.download_minutes(1000)) == 12 and costs.load_minutes == 25
    assert lasting(12.3) == "12 min" and lasting(135) == "2 h 15 min"
    assert lasting(0.1) == "1 min"


@pytest.mark.parametrize(
    ("knobs", "word"), [({}, "this"), ({"proxy_bind": "management"}, "home"), ({"proxy_bind": "10.0.0.1"}, "")]
)
def test_who_may_reach_it_is_read_from_the_folder(knobs: dict[str, Any], word: str) -> None:
    assert reach_of(knobs) == word


def test_what_was_not_asked_is_left_as_the_folder_has_it() -> None:
    found = recipe("gpt-oss-120b-mxfp4")
    texts = {"inventory.py": ""}
    logins = tuple(parse_all("a b"))
    before = Owned(Path("x"), texts, logins, {"recipe": found.name, "topology": "cluster", "nodes_per_replica": 2})
    assert set(planned.knobs(before, found, Answers(found.name, None), 2)) == {"recipe"}
    assert set(planned.knobs(before, found, Answers(found.name, None, people=40), 2)) == {
        *("recipe", "topology", "nodes_per_replica")
    }
    assert planned.knobs(before, found, Answers(found.name, None), 1)["topology"][0] == "solo"


@pytest.mark.parametrize(
    ("typed", "user", "login"),
    [
        ("a", "", Login("a", "me", "10.0.0.1", 2222, (("ssh_key", "k"),))),
        ("you@a", "", Login("a", "you", "10.0.0.1", 2222, (("ssh_key", "k"),))),
        ("a", "you", Login("a", "you", "10.0.0.1", 2222, (("ssh_key", "k"),))),
        ("a:23", "", Login("a", "me", "10.0.0.1", 23, (("ssh_key", "k"),))),
    ],
)
def test_a_node_that_is_named_again_keeps_what_was_not_typed(typed: str, user: str, login: Login) -> None:
    before = [Login("a", "me", "10.0.0.1", 2222, (("ssh_key", "k"),))]
    assert which(Asker(Console(), False), typed, user, before) == [login]


@pytest.mark.parametrize(("has", "scans"), [("ed25519", 1), ("rsa", 2)])
def test_a_host_key_is_asked_for_by_one_connection_where_there_is_an_ed25519(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: str, scans: int
) -> None:
    """sshd counts connections without a login (PerSourcePenalties, OpenSSH 9.8)."""
    key, log, scan = tmp_path / "key", tmp_path / "log", tmp_path / "ssh-keyscan"
    subprocess.run(["ssh-keygen", "-q", "-t", has, "-N", "", "-f", str(key)], check=True)
    answer = f"spark-1.local {key.with_suffix('.pub').read_text()}"
    silent = 'case "$*" in *ed25519*) exit 0;; esac' if has == "rsa" else ""
    scan.write_text(f"#!/bin/sh\necho x >>{log}\n{silent}\necho {shlex.quote(answer)}\n")
    scan.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (mend,) = accept(parse("me@spark-1.local"))
    assert log.read_text().count("x") == scans
    assert ("-t ed25519" in mend.command) == (scans == 1) and "SHA256:" in mend.shown[0]


def test_a_name_that_nobody_has_may_be_an_address() -> None:
    said = "ssh: Could not resolve hostname spark-9.local: Name or service not known"
    kind, problem, remedy = why(parse("spark-9.local"), said)
    assert (kind, problem) == ("away", "does not answer: nobody has the name spark-9.local")
    assert "or name its address: `--nodes 192.168.1.41" in remedy


@pytest.fixture
def ssh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The owner's ~/.ssh/config. OpenSSH asks the system for the home, not HOME: so it is named to it."""
    config, program = tmp_path / "config", tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    # A search domain gives every name that nobody has one address.
    known = {"10.0.0.1": "10.0.0.1", "10.0.0.2": "10.0.0.2"}
    monkeypatch.setattr(find, "address_of", lambda name: known.get(name, "192.0.2.80"))
    return config


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh here")
@pytest.mark.parametrize(
    ("second", "refused"),
    [
        ("HostName 10.0.0.2", ""),
        ("HostName 10.0.0.1\n Port 2222", ""),
        ("HostName two\n ProxyJump me@10.0.0.9", ""),
        ("HostName 10.0.0.1", "`one` and `two` have one address, 10.0.0.1"),
        ("User me", "`two` and `three` have one address, 192.0.2.80"),
    ],
)
def test_a_name_has_the_address_that_ssh_makes_of_it(ssh_config: Path, second: str, refused: str) -> None:
    ssh_config.write_text(f"Host one\n HostName 10.0.0.1\nHost two\n {second}\n")
    logins = parse_all("one two three")
    if refused:
        with pytest.raises(Refusal, match=refused):
            nodes._check_apart(logins)
    else:
        nodes._check_apart(logins)
    assert knock.user_of(parse("two")) == ("me" if "User" in second else knock.user_of(parse("three")))


@pytest.mark.parametrize(
    ("named", "folder", "remedy"),
    [
        ("192.168.1.41", "192.168.1.42", "--nodes 192.168.1.41,192.168.1.42"),
        ("192.168.1.41,", "192.168.1.42", "--nodes 192.168.1.41,192.168.1.42"),
        ("me@spark-1.local", "spark-2.local", "--nodes me@spark-1.local,spark-2.local"),
    ],
)
def test_a_spark_behind_a_blank_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, folder: str, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal) as refused:
        Flags(Path(folder), nodes=named).check()
    [finding] = refused.value.findings
    assert finding.problem == f"`{folder}` is written like a Spark"
    assert finding.remedy == f"write the Sparks with a comma: {remedy}"
    (tmp_path / folder).mkdir()
    Flags(Path(folder), nodes=named).check()


@pytest.mark.parametrize(("named", "folder"), [("spark-1", "sparks"), ("spark-1", "."), ("", "spark-2"), ("a,b", "a")])
def test_another_folder_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, folder: str) -> None:
    monkeypatch.chdir(tmp_path)
    Flags(Path(folder), nodes=named).check()
