"""The ranks' meeting, with real processes and sockets: all or none, in any order, and again after a death."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import rdma_double
from tests.support.ports import free_port
from tests.support.waiting import comes

MEET = Path(__file__).parents[2] / "files/engine/meet.py"

#: Of a rail, as rdma_double has it.
ADDRESS = "192.168.177.11"
Start = Callable[..., subprocess.Popen[bytes]]


def lay_out(
    home: Path,
    rank: int,
    address: tuple[str, int],
    ranks: int = 2,
    serve: str = "exec sleep 60",
    turns: Sequence[int] = (),
    spec: str = "one",
    rdma: Sequence[str] = (),
    *,
    ring_rails: Sequence[str] = (),
    ports_s: float = 1.0,
) -> Path:
    """What a deploy puts into a rank's container; `serve` is what the rank starts when all have met. `turns`: the
    ranks that share their nodes with other models.
    """
    folder = home / f"rank-{rank}"
    folder.mkdir(exist_ok=True)
    program = rdma_double.reading(folder, MEET.read_text())
    (folder / "meet.py").write_text(program.replace("PORTS_S, PORT_S = 10.0,", f"PORTS_S, PORT_S = {ports_s},"))
    meeting: dict[str, object] = {"address": address[0], "port": address[1], "ranks": ranks, "rank": rank}
    meeting |= {"mark": str(folder / "mark.json"), "stop_s": 2, "spec": spec}
    if turns:
        meeting["turns"] = list(turns)
    devices = [{"device": device, "address": ADDRESS} for device in rdma]
    meeting |= {"node": f"spark-{rank + 1}", "rdma": devices, "ring_rails": list(ring_rails)}
    meeting |= {"socket_interfaces": "=rail0,rail1"}
    if rank in turns:
        meeting["given"] = str(folder / "given")
        (folder / "given").touch()
    (folder / "meeting.json").write_text(json.dumps(meeting))
    script = folder / "start.sh"
    script.write_text(f"#!/bin/sh\ntouch {folder}/started\n{serve}\n")
    script.chmod(0o755)
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a rank; whatever is still there at the end of the test is killed."""
    running: list[subprocess.Popen[bytes]] = []
    port = free_port()

    def rank(
        number: int,
        *,
        ranks: int = 2,
        spec: str = "one",
        serve: str = "sleep 60",
        turns: Sequence[int] = (),
        rdma: Sequence[str] = (),
        ring_rails: Sequence[str] = (),
        ports_s: float = 1.0,
    ) -> subprocess.Popen[bytes]:
        address = ("127.0.0.1", port)
        told: Any = {"ring_rails": ring_rails, "ports_s": ports_s}
        folder = lay_out(tmp_path, number, address, ranks, serve, turns, spec, rdma, **told)
        process = subprocess.Popen([sys.executable, str(folder / "meet.py"), spec])
        running.append(process)
        return process

    yield rank
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def has_started(tmp_path: Path, *ranks: int, within_s: float = 10) -> bool:
    return comes(lambda: all((tmp_path / f"rank-{number}/started").exists() for number in ranks), within_s)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_ranks_meet_in_any_order(start: Start, tmp_path: Path, order: tuple[int, ...]) -> None:
    for number in order:
        start(number, ranks=3)
        time.sleep(0.2)
    assert has_started(tmp_path, 0, 1, 2)


PLANNED, RAILS = ("rocep1s0f0", "roceP2p1s0f0"), ("enp1s0f0np0", "enP2p1s0f0np0")
#: What a rank's NCCL is told, by what meet.py changes of its plan.
SERVE = "echo $NCCL_IB_HCA,$NCCL_IB_DISABLE,$NCCL_NET,$NCCL_SOCKET_IFNAME >{}/said-{}; exec sleep 60"
BY_PLAN, BY_SECOND, BY_SOCKETS = ",,,", "=roceP2p1s0f0,,,", ",1,Socket,=rail0,rail1"


def put_in(home: Path, rank: int, **how: dict[str, Any] | None) -> None:
    """Devices of a rank: as `add` takes them, None for one that is not there."""
    for number, device in enumerate(PLANNED):
        given = how.get(device, {})
        if given is not None:
            rdma_double.add(home / f"rank-{rank}", device, number, **given)
    for rail in RAILS:
        rdma_double.carries(home / f"rank-{rank}", rail)


def told(home: Path, *ranks: int) -> list[str]:
    """What their NCCL is told, when all have started."""
    files = [home / f"said-{rank}" for rank in ranks]
    assert comes(lambda: all(each.exists() and each.read_text() for each in files))
    return [each.read_text().strip() for each in files]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("its", "ring_rails", "then"),
    [
        ({}, (), BY_PLAN),
        ({}, RAILS, BY_PLAN),
        # One that is not there; whose port is down; that came when the container was made already.
        ({"rocep1s0f0": None}, (), BY_SECOND),
        ({"rocep1s0f0": {"state": "1: DOWN"}}, (), BY_SECOND),
        ({"rocep1s0f0": {"can_be_opened": False}}, (), BY_SECOND),
        # Whose rail has lost its address: NCCL would take another kind of GID than its peer.
        ({"rocep1s0f0": {"gid": "fe80:0000:0000:0000:0000:0000:0000:0001"}}, (), BY_SECOND),
        ({"rocep1s0f0": None, "roceP2p1s0f0": {"can_be_opened": False}}, (), BY_SOCKETS),
        # In a ring of three a device leads to one rank alone.
        ({"rocep1s0f0": None}, RAILS, BY_SOCKETS),
    ],
)
def test_all_ranks_take_the_rdma_devices_that_each_can_use(
    start: Start, tmp_path: Path, rank: int, its: dict[str, dict[str, Any] | None], ring_rails: Sequence[str], then: str
) -> None:
    for number in (0, 1):
        put_in(tmp_path, number, **its if number == rank else {})
        start(number, serve=SERVE.format(tmp_path, number), rdma=PLANNED, ring_rails=ring_rails)
    assert told(tmp_path, 0, 1) == [then, then]


def test_ranks_of_which_each_lacks_another_device_send_by_sockets(start: Start, tmp_path: Path) -> None:
    for number, lacking in enumerate(PLANNED):
        put_in(tmp_path, number, **{lacking: None})
        start(number, serve=SERVE.format(tmp_path, number), rdma=PLANNED)
    assert told(tmp_path, 0, 1) == [BY_SOCKETS] * 2


def test_a_rank_whose_plan_has_other_devices_has_nobody_use_any(start: Start, tmp_path: Path) -> None:
    for number, planned in enumerate(((), PLANNED)):
        put_in(tmp_path, number)
        start(number, serve=SERVE.format(tmp_path, number), rdma=planned)
    assert told(tmp_path, 0, 1) == [BY_PLAN, BY_SOCKETS]


#: What rank 0's mark has from when all are there until they start.
ALL_THERE = {"met": False, "missing": []}


def test_what_a_rank_lacks_is_said_with_its_node_by_all(start: Start, tmp_path: Path, capfd: Any) -> None:
    put_in(tmp_path, 0)
    put_in(tmp_path, 1, rocep1s0f0={"state": "1: DOWN"}, roceP2p1s0f0=None)
    for number in (0, 1):
        start(number, serve=SERVE.format(tmp_path, number), rdma=PLANNED)
    assert told(tmp_path, 0, 1) == [BY_SOCKETS] * 2
    line = "spark-2 (rocep1s0f0 is not up, roceP2p1s0f0 is not there) can't use all RDMA devices: all send by sockets"
    assert capfd.readouterr().err.count(line) == 2


@pytest.mark.parametrize("rdma", [PLANNED, ()])
def test_in_a_ring_a_rail_without_a_carrier_is_waited_for(
    start: Start, tmp_path: Path, capfd: Any, rdma: Sequence[str]
) -> None:
    """By sockets two nodes without a cable would not meet either."""
    for rank in range(3):
        put_in(tmp_path, rank)
        rdma_double.carries(tmp_path / f"rank-{rank}", RAILS[1], has_carrier=rank == 0)
        start(rank, ranks=3, serve=SERVE.format(tmp_path, rank), rdma=rdma, ring_rails=RAILS)
    said: list[str] = []

    def waits() -> int:
        said.append(capfd.readouterr().err)
        line = "spark-2 (enP2p1s0f0np0) and spark-3 (enP2p1s0f0np0) have no carrier: in a ring each cable is needed"
        return "".join(said).count(line)

    assert comes(lambda: waits() == 1)
    # It is said once, and not at each look. Nobody is missing, so that no node serves alone.
    time.sleep(2.5)
    assert waits() == 1 and mark(tmp_path, 0) == ALL_THERE
    assert not has_started(tmp_path, 0, within_s=0.1)
    for rank in (1, 2):
        rdma_double.carries(tmp_path / f"rank-{rank}", RAILS[1])
    assert told(tmp_path, 0, 1, 2) == [BY_PLAN] * 3
    assert "each rail has its carrier" in capfd.readouterr().err


def test_a_carrier_that_comes_up_behind_the_others_is_waited_for(start: Start, tmp_path: Path, capfd: Any) -> None:
    for rank in (0, 1):
        put_in(tmp_path, rank)
        rdma_double.carries(tmp_path / f"rank-{rank}", RAILS[0], has_carrier=False)
        start(rank, serve=SERVE.format(tmp_path, rank), ring_rails=RAILS, ports_s=60.0)
    assert comes(lambda: mark(tmp_path, 0) == ALL_THERE)
    for rank in (0, 1):
        rdma_double.carries(tmp_path / f"rank-{rank}", RAILS[0])
    assert told(tmp_path, 0, 1) == [BY_PLAN] * 2
    assert "no carrier" not in capfd.readouterr().err


def test_a_rank_of_a_ring_that_goes_while_a_cable_is_out_is_waited_for_anew(start: Start, tmp_path: Path) -> None:
    for rank in (0, 1):
        put_in(tmp_path, rank)
    rdma_double.carries(tmp_path / "rank-1", RAILS[0], has_carrier=False)
    start(0, rdma=PLANNED, ring_rails=RAILS)
    gone = start(1, rdma=PLANNED, ring_rails=RAILS)
    assert comes(lambda: mark(tmp_path, 0) == ALL_THERE)
    gone.kill()
    assert comes(lambda: mark(tmp_path, 0).get("missing") == [1])
    rdma_double.carries(tmp_path / "rank-1", RAILS[0])
    start(1, rdma=PLANNED, ring_rails=RAILS)
    assert has_started(tmp_path, 0, 1)


def test_what_ranks_can_use_is_asked_when_all_are_there_and_a_port_that_comes_up_is_waited_for(
    start: Start, tmp_path: Path
) -> None:
    """Not what it was while they waited for another one, which may be hours ago."""
    put_in(tmp_path, 0, rocep1s0f0={"state": "1: DOWN"})
    put_in(tmp_path, 1)
    put_in(tmp_path, 2)
    for number in (0, 1):
        start(number, ranks=3, serve=SERVE.format(tmp_path, number), rdma=PLANNED, ports_s=60.0)
    assert comes(lambda: mark(tmp_path, 0).get("missing") == [2])
    rdma_double.take(tmp_path / "rank-1", "roceP2p1s0f0")
    start(2, ranks=3, serve=SERVE.format(tmp_path, 2), rdma=PLANNED)
    assert comes(lambda: mark(tmp_path, 0) == ALL_THERE)
    # Its peer is there.
    put_in(tmp_path, 0)
    assert told(tmp_path, 0, 1, 2) == ["=rocep1s0f0,,,"] * 3


def asked_for_devices(start: Start, home: Path) -> subprocess.Popen[bytes]:
    """Rank 1, which has been asked by rank 0 and waits for a port."""
    put_in(home, 0)
    put_in(home, 1, rocep1s0f0={"state": "1: DOWN"})
    start(0, serve=SERVE.format(home, 0), rdma=PLANNED)
    asked = start(1, serve=SERVE.format(home, 1), rdma=PLANNED, ports_s=60.0)
    assert comes(lambda: mark(home, 0) == ALL_THERE)
    return asked


def test_a_rank_that_goes_while_devices_are_asked_for_is_waited_for_anew(start: Start, tmp_path: Path) -> None:
    asked_for_devices(start, tmp_path).kill()
    assert comes(lambda: mark(tmp_path, 0).get("missing") == [1])
    put_in(tmp_path, 1)
    start(1, serve=SERVE.format(tmp_path, 1), rdma=PLANNED)
    assert told(tmp_path, 0, 1) == [BY_PLAN] * 2


def test_a_rank_that_says_nothing_is_missing(start: Start, tmp_path: Path) -> None:
    """Its container is paused, and its kernel answers."""
    asked_for_devices(start, tmp_path).send_signal(signal.SIGSTOP)
    assert comes(lambda: mark(tmp_path, 0).get("missing") == [1], 30)


def test_nobody_starts_before_all_are_there(start: Start, tmp_path: Path) -> None:
    start(0, ranks=3)
    start(1, ranks=3)
    assert not has_started(tmp_path, 0, within_s=1.5)
    assert not has_started(tmp_path, 1, within_s=0.1)


def mark(tmp_path: Path, rank: int) -> dict[str, object]:
    """What a rank tells its node's canary."""
    file = tmp_path / f"rank-{rank}/mark.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def test_a_rank_tells_its_node_which_others_it_waits_for_and_when_all_are_there(start: Start, tmp_path: Path) -> None:
    # What another start has left.
    for number in range(3):
        (tmp_path / f"rank-{number}").mkdir()
        (tmp_path / f"rank-{number}/mark.json").write_text(json.dumps({"met": True, "missing": []}))
    start(1, ranks=3)
    assert comes(lambda: mark(tmp_path, 1) == {"met": False, "missing": [0]})
    start(0, ranks=3)
    assert comes(lambda: mark(tmp_path, 0) == {"met": False, "missing": [2]})
    assert comes(lambda: mark(tmp_path, 1) == {"met": False, "missing": []})
    start(2, ranks=3)
    assert has_started(tmp_path, 0, 1, 2)
    assert [mark(tmp_path, number) for number in range(3)] == [{"met": True, "missing": []}] * 3


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_is_asked_to_stop_while_it_waits_has_not_failed(start: Start, tmp_path: Path, rank: int) -> None:
    """0: whom nobody has called; 1: which has called; 2: whom rank 0 has not answered, being another's address."""
    if rank == 1:
        start(0, ranks=3)
    waits = start(rank, ranks=3)
    missing = {0: [1, 2], 1: [], 2: [0]}[rank]
    assert comes(lambda: mark(tmp_path, rank) == {"met": False, "missing": missing})
    waits.terminate()
    assert waits.wait(timeout=5) == 0
    assert not (tmp_path / f"rank-{rank}/started").exists()


def test_ranks_meet_also_where_they_can_t_tell(start: Start, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"rank-{number}/mark.json").mkdir(parents=True)
        start(number)
    assert has_started(tmp_path, 0, 1)


def asks(tmp_path: Path, rank: int) -> str:
    """The word with which a rank asks its node for its turn to load; empty: it does not."""
    return str(mark(tmp_path, rank).get("asks", ""))


def give(tmp_path: Path, rank: int) -> None:
    (tmp_path / f"rank-{rank}/given").write_text(asks(tmp_path, rank))


def test_ranks_that_share_their_nodes_load_when_each_has_its_turn_in_the_order_of_the_nodes(
    start: Start, tmp_path: Path
) -> None:
    for number in range(3):
        start(number, ranks=3, turns=(2, 0))
    assert comes(lambda: asks(tmp_path, 2) != "")
    assert not comes(lambda: asks(tmp_path, 0) != "", 1)
    # A word that was for another time is none.
    (tmp_path / "rank-2/given").write_text("1")
    assert not comes(lambda: asks(tmp_path, 0) != "", 1)
    give(tmp_path, 2)
    assert comes(lambda: asks(tmp_path, 0) != "")
    assert not has_started(tmp_path, 1, within_s=1) and asks(tmp_path, 1) == ""
    give(tmp_path, 0)
    assert has_started(tmp_path, 0, 1, 2)
    assert [mark(tmp_path, number) for number in range(3)] == [{"met": True, "missing": []}] * 3


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_dies_while_others_have_their_turn_costs_them_the_turn(
    start: Start, tmp_path: Path, victim: int
) -> None:
    ranks = [start(number, ranks=3, turns=(1, 0)) for number in range(3)]
    assert comes(lambda: asks(tmp_path, 1) != "")
    if victim != 1:
        give(tmp_path, 1)
        assert comes(lambda: asks(tmp_path, 0) != "")
    ranks[victim].kill()
    left = {0, 1, 2} - {victim}
    assert comes(lambda: not any(asks(tmp_path, number) for number in left))
    assert [ranks[number].poll() for number in left] == [None, None]
    # As ready.sh does it before a start.
    (tmp_path / f"rank-{victim}/mark.json").unlink()
    start(victim, ranks=3, turns=(1, 0))
    assert comes(lambda: asks(tmp_path, 1) != "")
    give(tmp_path, 1)
    assert comes(lambda: asks(tmp_path, 0) != "")
    give(tmp_path, 0)
    assert has_started(tmp_path, 0, 1, 2)


def test_a_rank_whose_node_has_nobody_who_gives_turns_waits_for_none(start: Start, tmp_path: Path) -> None:
    """Its container is of a start from before it shared its node."""
    start(0, turns=(0, 1))
    (tmp_path / "rank-0/given").unlink()
    start(1, turns=(0, 1))
    (tmp_path / "rank-1/given").unlink()
    assert has_started(tmp_path, 0, 1)


def test_a_rank_that_waits_for_another_one_s_turn_misses_nobody(start: Start, tmp_path: Path) -> None:
    for number in range(2):
        start(number, turns=(1,))
    assert comes(lambda: asks(tmp_path, 1) != "")
    assert mark(tmp_path, 0) == {"met": False, "missing": []}


def test_a_rank_that_waits_for_its_turn_ends_when_it_is_asked_to(start: Start, tmp_path: Path) -> None:
    ranks = [start(number, turns=(0, 1)) for number in range(2)]
    assert comes(lambda: asks(tmp_path, 0) != "")
    ranks[0].terminate()
    assert ranks[0].wait(timeout=5) == 0


@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_dies_the_other_leaves(start: Start, tmp_path: Path, victim: int) -> None:
    ranks = [start(0), start(1)]
    assert has_started(tmp_path, 0, 1)
    ranks[victim].kill()
    assert ranks[1 - victim].wait(timeout=10) == 1


def test_when_one_s_program_ends_both_leave_even_with_code_0(start: Start, tmp_path: Path) -> None:
    ranks = [start(0, serve="sleep 1; exit 0"), start(1)]
    assert has_started(tmp_path, 0, 1)
    assert [rank.wait(timeout=15) for rank in ranks] == [1, 1]


def test_they_meet_again(start: Start, tmp_path: Path) -> None:
    ranks = [start(0), start(1)]
    assert has_started(tmp_path, 0, 1)
    ranks[1].kill()
    ranks[0].wait(timeout=10)
    for number in (0, 1):
        (tmp_path / f"rank-{number}/started").unlink()
        start(number)
    assert has_started(tmp_path, 0, 1)


def test_ranks_of_different_specs_do_not_meet(start: Start, tmp_path: Path) -> None:
    start(0, spec="one")
    start(1, spec="two")
    assert not has_started(tmp_path, 0, within_s=2)


def test_a_rank_that_waited_while_the_plan_changed_starts_nothing_of_the_new_one(start: Start, tmp_path: Path) -> None:
    waited = start(0)
    assert comes(lambda: mark(tmp_path, 0).get("missing") == [1])
    # What a deploy of another plan lays down, which is broken off before it stops the rank.
    lay_out(tmp_path, 0, ("127.0.0.1", 1), spec="two")
    start(1)
    assert waited.wait(timeout=10) == 1
    assert not (tmp_path / "rank-0/started").exists()


def test_a_stop_is_polite_and_takes_the_program_along(start: Start, tmp_path: Path) -> None:
    ranks = [start(0, serve=f"trap 'touch {tmp_path}/told; exit' TERM; while :; do sleep 0.1; done"), start(1)]
    assert has_started(tmp_path, 0, 1)
    ranks[0].terminate()
    assert ranks[0].wait(timeout=10) == 0
    assert (tmp_path / "told").exists()
    assert ranks[1].wait(timeout=10) == 1


def test_a_rank_whose_peer_is_gone_does_not_wait_for_good_byes(start: Start, tmp_path: Path) -> None:
    ranks = [start(0), start(1, serve="trap '' TERM; while :; do sleep 0.1; done")]
    assert has_started(tmp_path, 0, 1)
    ranks[0].kill()
    assert ranks[1].wait(timeout=4) == 1
