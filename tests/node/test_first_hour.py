"""What the survey sees of a node that nobody has deployed to: its store's parents, and the login's own interface."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from operations.node.look import survey
from operations.node.network import links

NOBODY = pwd.getpwnam("nobody")
IP = """[{"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1"}]},
 {"ifname": "enP7s7", "addr_info": [{"family": "inet", "local": "10.0.0.11"}, {"family": "inet6", "local": "fe80::1"}]},
 {"ifname": "enp1s0f0np0", "addr_info": [{"family": "inet6", "local": "fe80::1"}]}]"""


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of another user's")
def test_a_store_that_the_login_can_not_make_is_told_by_what_stands_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path, *tmp_path.parents):
        if str(place).startswith("/tmp/pytest"):
            place.chmod(0o755)
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    for place in (home, home / ".cache"):
        os.chown(place, NOBODY.pw_uid, NOBODY.pw_gid)
    monkeypatch.setattr(survey, "home", lambda: str(home))
    store = home / ".cache/huggingface/hub"
    assert survey._unwritable(store) == ""
    # `docker run -v ~/.cache/huggingface:...` makes it for root.
    store.parent.mkdir()
    assert survey._unwritable(store) == str(store.parent)
    assert survey._unwritable(Path("/srv/models")) == "/srv"
    os.chown(store.parent, NOBODY.pw_uid, NOBODY.pw_gid)
    assert survey._unwritable(store) == ""
    # What is there is used, whose ever it is.
    store.mkdir()
    assert survey._unwritable(store) == "" and survey._foreign(store, []) == [str(store)]


@pytest.mark.parametrize(
    ("address", "device"),
    [("10.0.0.11", "enP7s7"), ("fe80::1%enp1s0f0np0", "enp1s0f0np0"), ("fe80::1%enP7s7", "enP7s7"), ("10.9.9.9", "")],
)
def test_the_interface_of_a_login_is_known_by_its_address(
    address: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "output", lambda *_: IP)
    assert links.device_of(address) == device
