"""A double of qemu: takes its command line, answers over its sockets, and runs no machine.

It writes its own words to the file `argv` beside its sockets, and each command that it gets to `commands`. Told `quit`
it ends for the reason that it is told; a real one is asked by its machine. What QEMU_DOUBLE_SAYS has is its console,
and then it ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

#: The netdevs in its machine.
devices: list[str] = []
#: Who is told what happens.
listeners: list[socket.socket] = []


def main() -> None:
    """By its command line."""
    argv = sys.argv[1:]
    if said := os.environ.get("QEMU_DOUBLE_SAYS"):
        print(said, flush=True)
        return
    devices.extend(json.loads(word)["id"] for word in argv if word.startswith('{"driver": "virtio-net'))
    for path in [argv[at + 1].split(":")[1].split(",")[0] for at, word in enumerate(argv) if word == "-qmp"]:
        Path(path).with_name("argv").write_text(json.dumps(argv))
        threading.Thread(target=serve, args=(Path(path),), daemon=True).start()
    time.sleep(60)


def serve(path: Path) -> None:
    """One conversation after the other, as a real one has them."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        while True:
            guest, _ = door.accept()
            if path.name == "events":
                listeners.append(guest)
            with guest.makefile("rw") as stream:
                converse(stream, path.parent / "commands")


def converse(stream: TextIO, log: Path) -> None:
    """Until the other side has had enough."""
    tell(stream, {"QMP": {"version": {}}})
    for line in stream:
        asked = json.loads(line)
        command, arguments = asked["execute"], asked["arguments"]
        if command != "qmp_capabilities":
            with log.open("a") as kept:
                kept.write(json.dumps([command, arguments]) + "\n")
        # Something happens in between.
        tell(stream, {"event": "RTC_CHANGE", "data": {}})
        tell(stream, answer(command, arguments))
        if command == "quit":
            for each in listeners:
                each.sendall(json.dumps({"event": "SHUTDOWN", "data": arguments}).encode() + b"\n")
            os._exit(0)


def answer(command: str, arguments: dict[str, str]) -> dict[str, Any]:
    """What qemu says to a command."""
    match command:
        case "qom-list":
            return {"return": [{"name": "type"}, *({"name": each} for each in devices)]}
        case "device_del":
            devices.remove(arguments["id"])
        case "device_add":
            devices.append(arguments["id"])
        case "nonsense":
            return {"error": {"class": "CommandNotFound", "desc": "The command nonsense has not been found"}}
    return {"return": {}}


def tell(stream: TextIO, said: dict[str, Any]) -> None:
    """One line."""
    stream.write(json.dumps(said) + "\n")
    stream.flush()


if __name__ == "__main__":
    main()
