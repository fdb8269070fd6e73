"""The scanner, on this machine's own ports."""

from __future__ import annotations

import socket

from tests.lab.scan import open_ports


def test_it_finds_what_listens_and_nothing_else() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        ports = {four.getsockname()[1], six.getsockname()[1]}
        around = sorted({each + step for each in ports for step in (-1, 0, 1)})
        assert open_ports("127.0.0.1", around) & ports == {four.getsockname()[1]}
        assert open_ports("::1", around) & ports == {six.getsockname()[1]}
    assert open_ports("127.0.0.1", around) & ports == set()
