"""An owner's folder: what is read, what is refused, and that it is written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.init import folder as folders
from operations.init.folder import owned, write
from operations.init.login import Login, parse_all
from operations.plan.config.refusal import Refusal

WANTED: dict[str, tuple[Any, str]] = {"recipe": ("x", "What for."), "topology": ("solo", "One engine.")}


def texts(before: folders.Owned, logins: list[Login], wanted: dict[str, tuple[Any, str]] = WANTED) -> dict[str, str]:
    return {
        folders.INVENTORY: folders.inventory(before, logins),
        folders.KNOBS: folders.knobs(before, wanted),
        folders.IGNORE: folders.ignored(before),
    }


def made(path: Path) -> Path:
    before = owned(path)
    write(before, texts(before, parse_all("me@a b")))
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    after = owned(made(tmp_path / "deep/sparks"))
    assert after.logins == (Login("a", "me"), Login("b"))
    assert after.knobs == {"_sudo": True, "recipe": "x", "topology": "solo"}
    assert write(after, texts(after, list(after.logins))) == []


def test_each_file_is_as_ruff_would_have_it(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    for command in (["format", "--check"], ["check"]):
        subprocess.run(
            [Path(sys.executable).parent / "ruff", *command, "--isolated", "--line-length", "120", str(path)],
            check=True,
        )


def test_a_value_changes_where_it_stands_with_its_comment_and_nothing_else(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    file = path / folders.KNOBS
    mine = "\n# Mine,\n# in two lines.\nproxy_port = 8080  # why\nalarms = [\n    {'ntfy': 'https://x.example/y'},\n]\n"
    file.write_text(file.read_text() + mine)
    before = owned(path)
    wanted: dict[str, tuple[Any, str]] = {
        "recipe": ("y", "What for, anew."),
        "proxy_port": (9090, "Nobody's."),
        "proxy_bind": ("all", "New."),
    }
    write(before, texts(before, list(before.logins), wanted))
    text = file.read_text()
    assert text == (
        folders.KNOBS_HEAD
        + '\n# What for, anew.\nrecipe = "y"\n\n# One engine.\ntopology = "solo"\n'
        + mine.replace("8080", "9090")
        + '\n# New.\nproxy_bind = "all"\n'
    )


def test_nodes_keep_what_else_the_inventory_says_of_them(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).write_text(
        'nodes = ["a", ("b", {"ssh_user": "me", "fabric_interfaces": ["x", "y"]})]  # mine\nother = 1\n'
    )
    before = owned(path)
    assert before.logins[1].data == (("fabric_interfaces", ["x", "y"]),)
    said = folders.inventory(before, [before.logins[1]])
    assert said == (
        'nodes = [\n    ("b", {"ssh_user": "me", "fabric_interfaces": ["x", "y"]}),\n]  # mine\nother = 1\n'
    )


def test_a_login_in_a_name_of_the_inventory_is_mended(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).write_text('nodes = [("me@a", {}), "b"]\n')
    before = owned(path)
    assert '("a", {"ssh_user": "me"})' in folders.inventory(before, [*before.logins, Login("c")])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("inventory.py", "nodes = [(", r"inventory.py  is no Python \(line 1: "),
        ("inventory.py", "from mine import nodes\n", "has no plain list `nodes`, so it can't be changed here"),
        ("inventory.py", 'nodes = [("a", 1)]\n', "has 'a', 1|has .*among its nodes"),
        ("inventory.py", 'nodes = ["a", "A"]\n', "`A` is there twice; name each|`A` is there twice"),
        ("group_data/all.py", "recipe = \n", r"all.py  is no Python \(line 1: "),
    ],
)
def test_a_folder_that_can_t_be_read_is_refused_with_the_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = made(tmp_path / "sparks")
    (path / name).write_text(text)
    with pytest.raises(Refusal, match=said):
        owned(path)
    assert (path / name).read_text() == text


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).write_bytes(b"\xff\xfe")
    with pytest.raises(Refusal, match="can't be read: it is no text"):
        owned(path)


def test_folders_that_are_not_an_owner_s_are_refused(tmp_path: Path) -> None:
    clone = Path(folders.__file__).parents[2]
    with pytest.raises(Refusal, match="is Tandem's own, and an upgrade writes there"):
        owned(clone)
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="is a file"):
        owned(tmp_path / "file")
    for number in range(4):
        (tmp_path / f"photo-{number}.jpg").write_text("")
    with pytest.raises(Refusal, match=r"has other things in it \(file, photo-0.jpg, photo-1.jpg, \.\.\.\)"):
        owned(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/README.md").write_text("")
    assert owned(tmp_path / "mine").is_new


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_folder_that_is_not_one_s_own_is_refused(tmp_path: Path) -> None:
    # pytest's own folders let nobody else through, one more of them where tests run side by side.
    for each in (tmp_path, *tmp_path.parents):
        if each.name.startswith(("test_", "popen-", "pytest-")):
            each.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.setgid(4711)
        os.setuid(4711)
        try:
            owned(tmp_path / "sparks")
        except Refusal as refusal:
            os._exit(0 if "is not yours to write" in str(refusal) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_disk_that_is_full_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "sparks")
    before = owned(path)
    was = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refusal, match="can't be written: No space left on device"):
        write(before, texts(before, [Login("c")], {"recipe": ("y", "")}))
    with pytest.raises(Refusal, match="No space left"):
        write(owned(tmp_path / "new"), texts(before, [Login("c")]))
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == was
    assert sorted(each.name for each in tmp_path.iterdir()) == ["sparks"]


@pytest.mark.parametrize("place", [1, 2])
def test_ctrl_c_between_two_files_comes_when_both_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    path = made(tmp_path / "sparks")
    before = owned(path)
    replace, count = os.replace, [0]

    def struck(source: Path, target: Path) -> None:
        count[0] += 1
        if count[0] == place:
            os.kill(os.getpid(), signal.SIGINT)
        replace(source, target)

    monkeypatch.setattr(os, "replace", struck)
    with pytest.raises(KeyboardInterrupt):
        write(before, texts(before, [Login("c")], {"recipe": ("y", "")}))
    after = owned(path)
    assert after.logins == (Login("c"),) and after.knobs["recipe"] == "y"
    assert sorted(each.name for each in path.iterdir()) == [".gitignore", "group_data", "inventory.py"]


def test_what_git_shall_not_have_is_added_to_what_is_there(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.IGNORE).write_text("mine\n*.token")
    said = folders.ignored(owned(path))
    assert said.startswith("mine\n*.token\n__pycache__/\n") and said.count("*.token") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nodes = [("a", {"ssh_port": "ssh"})]\n', "has ssh_port 'ssh' for a"),
        ('nodes = [("a", {"ssh_port": 70000})]\n', "has ssh_port 70000 for a"),
        ("nodes = {[]: 1}\n", "has no plain list `nodes`"),
    ],
)
def test_values_that_python_can_t_make_or_ssh_can_t_take_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "inventory.py").write_text(text)
    with pytest.raises(Refusal) as refused:
        owned(tmp_path)
    assert said in str(refused.value)


def test_a_home_that_nobody_has_is_refused() -> None:
    with pytest.raises(Refusal, match="Could not determine home directory"):
        owned(Path("~nobody-here/sparks"))


def test_what_stands_before_a_value_on_its_line_stays_and_a_form_feed_ends_no_line(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.KNOBS).write_text('# one\f two\n# three\n_sudo = True; recipe = "y"; topology = "solo"\n')
    before = owned(path)
    assert folders.knobs(before, WANTED) == '# one\f two\n# three\n_sudo = True; recipe = "x"; topology = "solo"\n'


def test_what_others_may_not_read_stays_so(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).chmod(0o600)
    before = owned(path)
    write(before, texts(before, parse_all("me@a b c")))
    assert (path / folders.INVENTORY).stat().st_mode & 0o777 == 0o600


COMMENTED = """# Mine.
nodes = [  # the head first
    # In the cellar:
    ("a", {}),  # the quiet one
    ("b", {
        "ssh_user": "me",  # its own login
    }),  # the "loud" one
    # In the attic, to come: c
]  # behind
other = 1
"""


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            "a b c",
            COMMENTED.replace("    # In the attic", '    ("c", {}),\n    # In the attic'),
        ),
        (
            "b",
            COMMENTED.replace('    ("a", {}),  # the quiet one\n', "    # a: the quiet one\n"),
        ),
        (
            "a",
            '# Mine.\nnodes = [  # the head first\n    # In the cellar:\n    ("a", {}),  # the quiet one\n'
            '    # b: its own login\n    # b: the "loud" one\n    # In the attic, to come: c\n]  # behind\nother = 1\n',
        ),
        (
            "a you@b",
            '# Mine.\nnodes = [  # the head first\n    # In the cellar:\n    ("a", {}),  # the quiet one\n'
            '    # its own login\n    ("b", {"ssh_user": "you"}),  # the "loud" one\n'
            "    # In the attic, to come: c\n]  # behind\nother = 1\n",
        ),
    ],
)
def test_no_comment_among_the_nodes_is_lost(tmp_path: Path, names: str, said: str) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).write_text(COMMENTED)
    before = owned(path)
    known = {each.name: each for each in before.logins}
    logins = [each if each.user else known.get(each.name, each) for each in parse_all(names)]
    assert folders.inventory(before, logins) == said


def test_two_nodes_of_one_line_and_a_list_that_is_empty(tmp_path: Path) -> None:
    path = made(tmp_path / "sparks")
    (path / folders.INVENTORY).write_text('nodes = ["a", "b",  # both\n]\n')
    before = owned(path)
    said = folders.inventory(before, [*before.logins, Login("c")])
    assert said == 'nodes = [\n    ("a", {}),\n    ("b", {}),  # both\n    ("c", {}),\n]\n'
    (path / folders.INVENTORY).write_text("nodes = [\n    # None yet.\n]\n")
    assert folders.inventory(owned(path), [Login("c")]) == 'nodes = [\n    ("c", {}),\n    # None yet.\n]\n'
