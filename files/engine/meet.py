"""The meeting of a cluster's ranks: `meet.py SPEC`, first process of each rank's container.

Rank 0 listens; the others call until it answers. When all are there, each starts /tandem/start.sh. From then on
they hold the connection; when one ends, dies or goes silent, all others end too, so that systemd starts every rank
anew and they meet again. Neither Ray nor vLLM's own launcher does this: a dead worker leaves a head that answers
/health, a dead head leaves workers that wait for a rendezvous that nobody will hold.

Nothing is sent over a held connection: the kernels ask each other once a second whether it stands (TCP keepalive). A
message that got no answer would be sent again after 0.2, 0.4, 0.8 ... 6.4 s, so a cut of 7 s would be taken for one of
13, and a node that is back after 7 s seen at 13. A question is asked every second, and a node that has been booted
since says at the next one that it knows of no such connection.

Ranks of different SPECs do not meet: half of a cluster can be newer than the other only in the middle of a deploy.

When all are there each rank says which of its RDMA devices it can use. NCCL looks for them in each rank by itself, and
where two ranks find unlike ones it hangs (NVIDIA/nccl #234, #2428). So all ranks take the devices that each of them can
use, by their places in its list. Where there is none all of them send by sockets. In a ring of three each device leads
to one rank alone, and so do its rail's sockets: there a cable that is out is waited for.

Whether they have met, and which ranks are missing, is in a file on the node (`mark` of meeting.json): the canary gives
a load its time from then on, and not from the start of a container that waits for another node.

Where ranks share their nodes with other models, each takes its node's turn to load (turn.py) when all are
there: `turns` of meeting.json are those ranks, in an order of the nodes that is the same for every model. So no two
models have each the turn that the other waits for. A rank asks with a word in its mark, and has its turn when the file
`given` has that word. When one is lost meanwhile the others ask no more, and so give their turns back.

A node that serves alone because another one stays away (files/fallback) speaks here in place of its rank: with
`{"alone": true}` it calls rank 0, or answers who calls it there. The ranks wait on, the mark says who serves alone, and
rank 0 tells such a caller which ranks it misses, and whose nodes serve alone.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

HERE = Path(__file__).parent
#: Where the kernel names RDMA devices and what programs open of them, and where a container has that.
INFINIBAND, VERBS, DEV = Path("/sys/class/infiniband"), Path("/sys/class/infiniband_verbs"), Path("/dev/infiniband")
#: Where the kernel names netdevs.
NET = Path("/sys/class/net")
#: What is said of a device that is not in this container.
NOT_THERE = "is not there"
#: Between two looks whether this rank's process has ended.
LOOK_S = 0.5
#: Between two calls of a worker to a head that is not there yet, and for one: the kernel would repeat a call to a node
#: that boots after 1, 3 and 7 s.
CALL_S, CALL_TIMEOUT_S = 0.3, 1.0
#: Between two looks whether a rank has its turn to load.
TURN_S = 0.3
#: How long a port may take to come up behind the others: its peer was off until now. Between two looks at it.
PORTS_S, PORT_S = 10.0, 0.5
#: A rail that is cut for 5 s must not cost a load of 15 minutes; a dead node should not go unseen for longer.
SILENCE_S = 12
#: Of the seconds that the engine is given to end (`stop_s` of meeting.json), what is kept for the look before it and
#: for ending what has not ended by then.
KEPT_S = 0.7


class Peer:
    """One connection to another rank, read line by line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        #: Why it can't be read any more.
        self.gone = ""
        self._buffer = b""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        # Of questions as of messages that get no answer.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; a peer that can't take it is found by its silence."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def receive(self) -> list[dict[str, Any]]:
        """Complete messages that have arrived; `gone` says when there will be none any more."""
        try:
            data = self.connection.recv(65536)
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            self.gone = "" if data else "is gone"
            messages = [json.loads(line) for line in lines if line]
            if all(isinstance(each, dict) for each in messages):
                return messages
            self.gone = "says what is no message"
        except BlockingIOError:
            return []
        except OSError as error:
            silent = error.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
            self.gone = f"has been silent for {SILENCE_S} s" if silent else "is gone"
        except ValueError:
            self.gone = "says what is no message"
        return []


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


class Looked(NamedTuple):
    """What a rank has found on its node."""

    node: str
    #: For each of its RDMA devices why it can't be used; empty: it can.
    faults: list[str]
    #: In a ring: the rails without a carrier.
    cut: list[str]


class Network(NamedTuple):
    """The RDMA devices that all ranks use."""

    #: By its place in a rank's list: whether a device is used.
    rdma: list[bool]
    #: The ranks that can't use all of theirs, and why.
    lacking: list[str]


def look(meeting: dict[str, Any]) -> Looked:
    """Look at this rank's RDMA devices and rails. A port or a carrier that is down has PORTS_S to come up.

    A device can be used when this container can open it, its port is up, and the rail's address is among its GIDs:
    without that GID NCCL would take one of another kind than its peer.
    """
    deadline = time.monotonic() + PORTS_S
    while True:
        # `device`, and `address` of its rail.
        faults = [_fault(each["device"], each["address"]) for each in meeting["rdma"]]
        cut = [rail for rail in meeting["ring_rails"] if _text(NET / rail / "carrier") != "1"]
        comes = bool(cut) or any(each and not each.endswith(NOT_THERE) for each in faults)
        if not comes or time.monotonic() > deadline:
            return Looked(meeting["node"], faults, cut)
        time.sleep(PORT_S)


def _fault(device: str, address: str) -> str:
    try:
        return _fault_of(device, address)
    except OSError:
        # It went meanwhile.
        return f"{device} {NOT_THERE}"


def _fault_of(device: str, address: str) -> str:
    # A container has what was there when it was made, and its /sys is the node's of this moment.
    opened = [name.parent.name for name in VERBS.glob("uverbs*/ibdev") if _text(name) == device]
    if not any((DEV / each).exists() for each in opened):
        return f"{device} {NOT_THERE}"
    up = [state.parent for state in (INFINIBAND / device).glob("ports/*/state") if _text(state).startswith("4: ACTIVE")]
    if not up:
        return f"{device} is not up"
    gids = {_ipv4(_text(gid)) for port in up for gid in port.glob("gids/*")}
    # Nobody has told which rail is this device's where there is no address.
    return "" if address in {"", *gids} else f"{device} has no GID of {address}"


def _ipv4(gid: str) -> str:
    """Empty where it is no IPv4 address."""
    try:
        return str(ipaddress.IPv6Address(gid).ipv4_mapped or "")
    except ValueError:
        return ""


def _text(path: Path) -> str:
    """Empty where it has gone meanwhile."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def ask_all(peers: dict[int, Peer], meeting: dict[str, Any]) -> dict[int, Looked] | None:
    """Rank 0, when all are there: rank -> what it says of its node. None: one is gone meanwhile."""
    for peer in peers.values():
        peer.send({"look": True})
    own = look(meeting)
    told = _answers(peers, sorted(peers), "looked", PORTS_S + SILENCE_S)
    return None if told is None else {0: own} | {rank: Looked(*told[rank]) for rank in sorted(told)}


def wait_for_cables(peers: dict[int, Peer], meeting: dict[str, Any], mark: Path) -> bool:
    """Rank 0 of a ring: until each rail has a carrier. False: a rank is gone meanwhile."""
    said = ""
    # Nobody is missing: a node that served alone instead would be left at once for the ranks that call it.
    note(mark, [])
    while (told := ask_all(peers, meeting)) is not None:
        cut = [f"{each.node} ({', '.join(each.cut)})" for each in told.values() if each.cut]
        if not cut:
            if said:
                say("each rail has its carrier")
            return True
        if (why := " and ".join(cut)) != said:
            has = "have" if len(cut) > 1 else "has"
            say(f"{why} {has} no carrier: in a ring each cable is needed, plug it in at both ends")
        said = why
    return False


def agreed(told: dict[int, Looked], is_ring: bool) -> Network | None:
    """The devices that every rank can use, by their places. None: in a ring a cable is out."""
    if any(each.cut for each in told.values()):
        return None
    lacking = {rank: each for rank, each in told.items() if any(each.faults)}
    # In a ring a device leads to one rank alone.
    if len({len(each.faults) for each in told.values()}) != 1 or (lacking and is_ring):
        return Network([], _why(lacking))
    by_place = zip(*(each.faults for each in told.values()), strict=True)
    return Network([not any(faults) for faults in by_place], _why(lacking))


def _why(told: dict[int, Looked]) -> list[str]:
    return [f"{each.node} ({', '.join(filter(None, each.faults))})" for each in told.values()]


def variables(meeting: dict[str, Any], network: Network) -> dict[str, str]:
    """Environment variables that keep NCCL to the devices that all ranks use. None where these are all of `meeting`."""
    devices = [each["device"] for each in meeting["rdma"]]
    taken = [device for device, is_used in zip(devices, network.rdma, strict=False) if is_used]
    if taken == devices:
        return {}
    who = " and ".join(network.lacking)
    why = f"{who} can't use all RDMA devices" if who else "the ranks were told of unlike RDMA devices"
    if taken:
        say(f"{why}: all use {', '.join(taken)} alone; `tandem doctor` helps")
        return {"NCCL_IB_HCA": "=" + ",".join(taken)}
    say(f"{why}: all send by sockets, and tokens are late; `tandem doctor` helps")
    # A plugin of the image's reads another variable than NCCL_IB_DISABLE; by NCCL_NET it isn't chosen.
    return {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": meeting["socket_interfaces"]}


def note(mark: Path, missing: list[int], *, met: bool = False, alone: Iterable[int] = (), asks: str = "") -> None:
    """For the canary, the fallback and the turns on this node. A rank meets without it as well."""
    aside = mark.with_suffix(".part")
    told: dict[str, object] = {"met": met, "missing": missing}
    told |= {"alone": sorted(alone)} if alone else {}
    told |= {"asks": asks} if asks else {}
    try:
        aside.write_text(json.dumps(told))
        aside.rename(mark)
    except OSError as error:
        say(f"{mark} can't be written: {error}")


def gather(listener: socket.socket, ranks: int, spec: str, mark: Path) -> dict[int, Peer]:
    """Rank 0: wait until every other rank has called, then tell them all to go."""
    present: dict[int, Peer] = {}
    alone: dict[int, Peer] = {}
    callers: list[Peer] = []
    say(f"waiting for {ranks - 1} more ranks")
    while missing := [rank for rank in range(1, ranks) if rank not in present]:
        note(mark, missing, alone=alone)
        for peer in alone.values():
            peer.send({"missing": missing, "serve": sorted(alone)})
        select.select([listener, *(p.connection for p in [*callers, *present.values(), *alone.values()])], [], [])
        try:
            callers.append(Peer(listener.accept()[0]))
        except BlockingIOError:
            pass
        for caller in list(callers):
            if select.select([caller.connection], [], [], 0)[0]:
                messages = caller.receive()
                if messages:
                    _admit(caller, messages[0], spec, range(1, ranks), present, alone)
                if caller.gone:
                    caller.connection.close()
                if messages or caller.gone:
                    callers.remove(caller)
        for rank, peer in list(present.items()):
            if select.select([peer.connection], [], [], 0)[0]:
                peer.receive()
            if peer.gone:
                say(f"rank {rank} {peer.gone}, before the others came")
                del present[rank]
        for rank, peer in list(alone.items()):
            if select.select([peer.connection], [], [], 0)[0]:
                peer.receive()
            if peer.gone:
                say(f"rank {rank}'s node serves alone no more")
                del alone[rank]
    return present


def take_turns(peers: dict[int, Peer], turns: list[int], mark: Path, given: Path | None) -> bool:
    """Rank 0, when all are there: whether each of these ranks has its turn to load. False: one is gone meanwhile."""
    note(mark, [])
    for rank in turns:
        if rank == 0:
            has = own_turn(mark, given, peers)
        else:
            peers[rank].send({"take": True})
            has = _answers(peers, [rank], "mine") is not None
        if not has:
            return False
    return True


def own_turn(mark: Path, given: Path | None, peers: dict[int, Peer]) -> bool:
    """Wait for this node's turn; False: a peer is gone meanwhile. Without the file `given` nobody gives turns here."""
    if given is None or not given.exists():
        return True
    word = str(time.monotonic_ns())
    say("all ranks are here: waiting for this node's turn to load")
    note(mark, [], asks=word)
    while not _are_lost(peers):
        try:
            if given.read_text() == word:
                return True
        except OSError:
            pass
        time.sleep(TURN_S)
    return False


def _answers(
    peers: dict[int, Peer], ranks: list[int], word: str, within_s: float | None = None
) -> dict[int, Any] | None:
    """Rank -> what it sends under the key `word`. None where a rank is gone before, or one is silent for `within_s`."""
    told: dict[int, Any] = {}
    deadline = None if within_s is None else time.monotonic() + within_s
    while missing := [rank for rank in ranks if rank not in told]:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            peers[missing[0]].gone = "does not answer"
            return None
        for connection in select.select([peer.connection for peer in peers.values()], [], [], left)[0]:
            (rank,) = [number for number, peer in peers.items() if peer.connection is connection]
            for message in peers[rank].receive():
                if word in message:
                    told[rank] = message[word]
        if any(peer.gone for peer in peers.values()):
            return None
    return told


def _are_lost(peers: dict[int, Peer]) -> bool:
    for peer in peers.values():
        if select.select([peer.connection], [], [], 0)[0]:
            peer.receive()
    return any(peer.gone for peer in peers.values())


def lead(
    listener: socket.socket, meeting: dict[str, Any], spec: str, mark: Path, given: Path | None
) -> tuple[dict[int, Peer], Network]:
    """Rank 0: meet until all are there and may load. Returns the others, and what all agree on."""
    while True:
        present = gather(listener, meeting["ranks"], spec, mark)
        network = None
        is_ring = bool(meeting["ring_rails"])
        # A turn is another model's time: it is not taken for a cable.
        if (not is_ring or wait_for_cables(present, meeting, mark)) and take_turns(
            present, meeting.get("turns", []), mark, given
        ):
            # A turn may have been waited for: what was true before is asked again.
            told = ask_all(present, meeting)
            network = agreed(told, is_ring) if told else None
        if network:
            for peer in present.values():
                peer.send({"go": True, **network._asdict()})
            return present, network
        gone = [f"rank {rank} {peer.gone}" for rank, peer in present.items() if peer.gone]
        say(f"{', '.join(gone) or 'a cable is out'}: meeting anew")
        for peer in present.values():
            peer.connection.close()


def _admit(
    caller: Peer,
    message: dict[str, object],
    spec: str,
    ranks: range,
    present: dict[int, Peer],
    alone: dict[int, Peer],
) -> None:
    rank = message.get("rank")
    if not isinstance(rank, int) or rank not in ranks:
        say(f"somebody calls who is none of the ranks: {str(rank)[:20]}")
        caller.connection.close()
        return
    if message.get("spec") != spec:
        say(f"rank {message.get('rank')} has another spec, {message.get('spec')}: a deploy is still on its way")
        caller.connection.close()
        return
    if message.get("alone"):
        alone[rank] = caller
        say(f"rank {rank}'s node serves alone until it comes")
        return
    present[rank] = caller
    say(f"rank {rank} is here")


def call(meeting: dict[str, Any], spec: str, mark: Path, given: Path | None) -> tuple[dict[int, Peer], Network]:
    """A worker: call rank 0 until it answers and says go. Returns rank 0, and what all agree on."""
    address = (meeting["address"], meeting["port"])
    said = ""
    while True:
        note(mark, [0])
        try:
            connection = socket.create_connection(address, timeout=CALL_TIMEOUT_S)
        except OSError as error:
            if str(error) != said:
                said = str(error)
                say(f"rank 0 at {address[0]}:{address[1]} does not answer yet: {said}")
            time.sleep(CALL_S)
            continue
        connection.settimeout(None)
        head = Peer(connection)
        head.send({"rank": meeting["rank"], "spec": spec})
        say("rank 0 is there; waiting for its word")
        note(mark, [])
        while not head.gone:
            messages = head.receive()
            if go := next((message for message in messages if message.get("go")), None):
                return {0: head}, Network(go["rdma"], go["lacking"])
            if any(message.get("take") for message in messages) and own_turn(mark, given, {0: head}):
                head.send({"mine": True})
            if any(message.get("look") for message in messages):
                head.send({"looked": look(meeting)})
            if any(message.get("alone") for message in messages):
                say("rank 0's node serves alone until it comes")
                note(mark, [0], alone=[0])
        time.sleep(CALL_S)


def serve(peers: dict[int, Peer], network: Network, meeting: dict[str, Any], spec: str) -> int:
    """Run this rank's commands until they end or a peer is gone; returns the exit code."""
    if json.loads((HERE / "meeting.json").read_text())["spec"] != spec:
        say("the plan has changed while this rank waited: leaving, so that it starts anew")
        return 1
    say("all ranks are here: starting")
    note(Path(meeting["mark"]), [], met=True)
    asked: list[bool] = []
    on_stop(lambda *_: asked.append(True))
    env = os.environ | variables(meeting, network)
    process = subprocess.Popen([str(HERE / "start.sh")], start_new_session=True, env=env)
    for peer in peers.values():
        peer.connection.setblocking(False)
    reason = ""
    while not reason:
        select.select([peer.connection for peer in peers.values()], [], [], LOOK_S)
        code = process.poll()
        if code is not None:
            reason = f"this rank's process ended with {code}"
        elif asked:
            reason = "asked to stop"
        for rank, peer in peers.items():
            peer.receive()
            if peer.gone:
                reason = reason or f"rank {rank} {peer.gone}"
    say(f"{reason}: leaving, so that all ranks meet again")
    end(process, patience_s=max(meeting["stop_s"] - KEPT_S, 0) if asked else 0)
    return 0 if asked else 1


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """End the rank's processes: a polite word where there is time for one. Without its peers a rank has nothing to
    finish, and every second of a good-bye (Ray's takes ten) is one without a service.
    """
    steps = [(signal.SIGTERM, patience_s)] if patience_s else []
    for number, patience in [*steps, (signal.SIGKILL, 5.0)]:
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def on_stop(act: Callable[[int, FrameType | None], object]) -> None:
    """What is done when this rank is asked to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, act)


def leave(*_: object) -> NoReturn:
    """A rank that waits has nothing to end. Any other code than 0 would have its unit count as one that has failed."""
    say("asked to stop: waits no longer")
    sys.exit(0)


def main() -> int:
    """Meet, then serve."""
    on_stop(leave)
    spec = sys.argv[1]
    meeting = json.loads((HERE / "meeting.json").read_text())
    address, mark = (meeting["address"], meeting["port"]), Path(meeting["mark"])
    given = Path(meeting["given"]) if "given" in meeting else None
    if meeting["rank"] != 0:
        return serve(*call(meeting, spec, mark, given), meeting, spec)
    with socket.create_server(address) as listener:
        listener.setblocking(False)
        return serve(*lead(listener, meeting, spec, mark, given), meeting, spec)


if __name__ == "__main__":
    sys.exit(main())
