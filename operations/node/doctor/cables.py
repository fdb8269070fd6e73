"""Which port is cabled to which: found by asking.

Every node sends, out of each port that has a link, a frame that says who it is, and hears on each of its ports whose
frames arrive. No address is needed for that, and no name is believed. The doctor brings nothing up; a deploy that looks
for a ring (operations/runner/wiring.py) has ports up that were down, as long as it listens.
"""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import ExitStack

from operations.node.commands import output
from operations.node.network import links
from operations.wire.doctor import Cables, HeardFrame

#: IEEE 802's first ethertype for experiments within one site. Switches flood the frame, nobody else takes it.
ETHERTYPE = 0x88B5
_EVERYBODY = b"\xff" * 6
PAUSE_S = 0.1
MAGIC = "tandem-doctor"


def main(node: str, run: str, seconds: float, wake: bool = False) -> Cables:
    """Send and listen for so long. `ports`: those that take part; `heard`: [{device, node, from}], each once.

    `run`: a word that only frames of this look have. A node hears itself where two of its ports are joined. `wake`: all
    ports take part, those that are down as well.
    """
    found = links.links()
    asleep = [device for device, link in found.items() if wake and not link["up"]]
    ports = [device for device, link in found.items() if wake or (link["up"] and link["carrier"])]
    try:
        for device in asleep:
            output("ip", "link", "set", device, "up")
        return {"ports": ports, "heard": listen(ports, node, run, seconds)}
    finally:
        for device in asleep:
            output("ip", "link", "set", device, "down")


def listen(ports: list[str], node: str, run: str, seconds: float) -> list[HeardFrame]:
    """Needs root. A port that goes away meanwhile hears nothing more."""
    heard: dict[tuple[str, str, str], HeardFrame] = {}
    with ExitStack() as stack:
        sockets: dict[socket.socket, str] = {}
        for device in ports:
            one = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)))
            one.bind((device, ETHERTYPE))
            sockets[one] = device
        end = time.monotonic() + seconds
        next_word = 0.0
        while (now := time.monotonic()) < end:
            if now >= next_word:
                next_word = now + PAUSE_S
                for one, device in sockets.items():
                    _say(one, {MAGIC: run, "node": node, "from": device})
            # Without a port this is a pause.
            for one in select.select(list(sockets), [], [], PAUSE_S)[0]:
                if word := _hear(one, run):
                    entry: HeardFrame = {"device": sockets[one], "node": word["node"], "from": word["from"]}
                    heard[entry["device"], entry["node"], entry["from"]] = entry
    return sorted(heard.values(), key=lambda entry: (entry["device"], entry["node"], entry["from"]))


def _say(one: socket.socket, word: dict[str, str]) -> None:
    text = json.dumps(word).encode()
    own = one.getsockname()[4]
    frame = _EVERYBODY + own + ETHERTYPE.to_bytes(2, "big") + len(text).to_bytes(2, "big") + text
    try:
        # 60 bytes: the least that a frame has.
        one.send(frame.ljust(60, b"\0"))
    except OSError:
        pass


def _hear(one: socket.socket, run: str) -> dict[str, str] | None:
    """What somebody of this run has said. A port's own frames don't come by: the socket takes one ethertype alone."""
    try:
        frame = one.recv(4096)
        length = int.from_bytes(frame[14:16], "big")
        word = json.loads(frame[16 : 16 + length])
        return word if word.get(MAGIC) == run and {"node", "from"} <= word.keys() else None
    except (OSError, ValueError, AttributeError):
        return None
