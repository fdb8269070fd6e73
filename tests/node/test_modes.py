"""Whose secrets are, and who could read or replace them: real files of real users, below a folder of the test's."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from operations.node.door import keys
from operations.node.secret import modes
from operations.paths import ETC, KEYS_USED, PROXY_KEY, PROXY_USER, RAY_TOKEN, SECRETS
from operations.steps.proxy import TAKE_KEY
from tests.node.shipped import part

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")

PROXY = f"{ETC}/proxy/secrets"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node's secrets as a deploy leaves them."""
    token = in_(tmp_path, RAY_TOKEN)
    token.parent.mkdir(parents=True)
    token.parent.chmod(0o700)
    with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
        out.write("token")
    command = TAKE_KEY.replace(ETC, str(in_(tmp_path, ETC)))
    subprocess.run(["sh", "-c", command], input="sk-owner\n", text=True, check=True)
    assert in_(tmp_path, PROXY_KEY).read_text() == "sk-owner\n"
    assert asked(tmp_path, mend=True) == {"wrong": [], "refused": []}
    return tmp_path


def asked(top: Path, **more: Any) -> Any:
    return modes.main(list(SECRETS), top=str(top), **more)


def in_(top: Path, path: str) -> Path:
    return top / path.lstrip("/")


def test_secrets_are_made_as_they_are_to_be(node: Path) -> None:
    assert asked(node) == {"wrong": [], "refused": []}
    for path, mode in ((PROXY, 0o40700), (PROXY_KEY, 0o100600), (KEYS_USED, 0o40700)):
        found = in_(node, path).stat()
        assert (found.st_uid, found.st_gid, found.st_mode) == (PROXY_USER, PROXY_USER, mode), path
    assert in_(node, RAY_TOKEN).stat().st_uid == 0


def test_a_node_without_secrets_has_nothing_wrong(tmp_path: Path) -> None:
    assert asked(tmp_path) == {"wrong": [], "refused": []}
    in_(tmp_path, f"{ETC}/engine/secrets").mkdir(parents=True, mode=0o700)
    assert asked(tmp_path) == {"wrong": [], "refused": []}


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a key that others read": (
        lambda top: in_(top, PROXY_KEY).chmod(0o644),
        "master.key has mode 644, not 600, others could read it (without it the next deploy makes another)",
    ),
    "a token of another user's": (
        lambda top: os.chown(in_(top, RAY_TOKEN), 1234, 0),
        "ray.token belongs to 1234:0, not to 0:0",
    ),
    "a key of root's, as before the proxy had a user": (
        lambda top: os.chown(in_(top, PROXY_KEY), 0, 0),
        f"master.key belongs to 0:0, not to {PROXY_USER}:{PROXY_USER}",
    ),
    "a folder that others list": (lambda top: in_(top, PROXY).chmod(0o755), "proxy/secrets has mode 755, not 700"),
    "counts that others read": (
        lambda top: in_(top, f"{KEYS_USED}/used.json").write_text("{}"),
        "used.json has mode 644, not 600",
    ),
    "no folder for counts": (lambda top: in_(top, KEYS_USED).rmdir(), "tandem/keys is not there"),
    "Tandem's folder, written to by all": (
        lambda top: in_(top, ETC).chmod(0o777),
        "etc/tandem has mode 777: others than root could put their own files in the place of Tandem's",
    ),
    "a folder of Tandem's that is another's": (
        lambda top: os.chown(in_(top, f"{ETC}/proxy"), 1234, 0),
        "proxy belongs to 1234: others than root",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_tandems_is_put_right(node: Path, name: str) -> None:
    harm, problem = WRONG[name]
    harm(node)
    found = asked(node)
    assert len(found["wrong"]) == 1 and problem in found["wrong"][0], found
    assert found["refused"] == []
    assert asked(node, mend=True) == {"wrong": [], "refused": []}
    assert asked(node) == {"wrong": [], "refused": []}


def behind_a_link(top: Path, path: str) -> None:
    place = in_(top, path)
    place.rename(place.with_name("elsewhere"))
    place.symlink_to(place.with_name("elsewhere"))


REFUSED: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a folder above, written to by all": (
        lambda top: in_(top, "/etc").chmod(0o777),
        "etc has mode 777: others than root could",
        "&& sudo chmod go-w",
    ),
    "a folder above of another user's": (
        lambda top: os.chown(in_(top, "/var/lib"), 1234, 1234),
        "lib belongs to 1234",
        "sudo chown root:",
    ),
    "a secret behind a link": (lambda top: behind_a_link(top, RAY_TOKEN), "ray.token is a link", "in its place"),
    "a folder behind a link": (lambda top: behind_a_link(top, PROXY), "secrets is a link", "in its place"),
    "Tandem's folder behind a link": (lambda top: behind_a_link(top, ETC), "etc/tandem is a link", "in its place"),
    "a folder among the files": (lambda top: in_(top, f"{KEYS_USED}/more").mkdir(), "more is no file", "sudo rm -r"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_the_owner_s_is_refused_and_left_as_it_is(node: Path, name: str) -> None:
    harm, problem, remedy = REFUSED[name]
    harm(node)
    before = [(path, path.lstat().st_mode, path.lstat().st_uid) for path in sorted(node.rglob("*"))]
    found = asked(node, mend=True)
    assert found["wrong"] == []
    assert any(problem in said and remedy in way for said, way in found["refused"]), found
    assert before == [(path, path.lstat().st_mode, path.lstat().st_uid) for path in sorted(node.rglob("*"))]


def test_the_proxy_s_number_is_nobody_else_s(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda number: pwd.struct_passwd(("alice", "x", number, 0, "", "/", "")))
    said = [problem for problem, _ in asked(node)["refused"]]
    assert said == [f"the user number {PROXY_USER}, which is for the proxy's containers alone, is alice's"]


def test_a_mended_file_looks_changed_to_who_could_not_read_it(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not written anew: a LiteLLM that is older than the owner's key would be renewed."""
    mine = part("litellm", "door_keys").Keys(in_(node, f"{PROXY}/keys.json"), "sk-owner")
    with open(os.open(in_(node, f"{PROXY}/keys.json"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
        key = {"hash": hashlib.sha256(b"sk-alice").hexdigest(), "expires": None, "requests": None, "tokens": None}
        json.dump({"alice": key}, out)
    written = in_(node, f"{PROXY}/keys.json").stat().st_mtime_ns
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Path, "read_text", lambda _: (_ for _ in ()).throw(PermissionError(13, "denied")))
        assert mine.find(b"sk-alice") is None
    assert mine.find(b"sk-alice") is None
    assert asked(node)["wrong"], "it is root's"
    asked(node, mend=True)
    assert mine.find(b"sk-alice")
    assert in_(node, f"{PROXY}/keys.json").stat().st_mtime_ns == written


def test_keys_of_clients_are_the_proxy_s(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS", in_(node, f"{PROXY}/keys.json"))
    monkeypatch.setattr(keys, "DOOR", in_(node, ETC))
    limits: Any = {"within_s": None, "until": None, "requests": None, "tokens": None}
    assert "made" in keys.main(make=limits | {"name": "alice", "hash": "0" * 64})
    assert keys.KEYS.stat().st_uid == PROXY_USER
    assert asked(node) == {"wrong": [], "refused": []}


def test_a_token_of_the_hub_s_is_the_login_s_or_root_s_and_in_a_folder_of_theirs(tmp_path: Path) -> None:
    token, login = tmp_path / "own/token", 1234
    token.parent.mkdir()
    assert modes.token_problem("", login) == ""
    assert modes.token_problem(str(token), login) == f"{token} is not there"
    token.write_text("hf_x")
    assert modes.token_problem(str(token), login) == f"{token} has mode 644: others can read the token"
    token.chmod(0o600)
    for user in (0, login):
        os.chown(token, user, 0)
        assert modes.token_problem(str(token), login) == ""
    token.parent.chmod(0o777)
    assert modes.token_problem(str(token), login) == f"{token.parent} has mode 777: anybody can replace the token"
    token.parent.chmod(0o755)
    os.chown(token.parent, 4321, 0)
    assert modes.token_problem(str(token), login) == f"{token.parent} belongs to 4321, who can replace the token"
    os.chown(token.parent, 0, 0)
    (tmp_path / "link").symlink_to(token)
    assert modes.token_problem(str(tmp_path / "link"), login).endswith("is a link: name the file itself")
