"""`undrain.py SOCKET SERVER`: the proxy may send requests to this LiteLLM again. Nothing to do where no proxy runs."""

from __future__ import annotations

import socket
import sys


def main(path: str, server: str) -> None:
    """HAProxy's own checks say when it is up."""
    with socket.socket(socket.AF_UNIX) as admin:
        admin.settimeout(5)
        try:
            admin.connect(path)
            admin.sendall(f"set server {server} state ready\n".encode())
            admin.recv(1024)
        except OSError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
