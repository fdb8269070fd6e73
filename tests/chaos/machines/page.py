"""What was seen of virtual machines, kept in docs/machines.json and shown in docs/machines.md."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from tests.chaos import markdown, results
from tests.chaos.fault import Fault
from tests.chaos.machines.faults import FAULTS, REBOOT
from tests.chaos.machines.scene import REPLICAS, TOPOLOGIES
from tests.chaos.row import Row
from tests.lab.cluster import ROOT
from tests.lab.desk import ARCHITECTURES

PATH, PAGE = ROOT / "docs/machines.json", ROOT / "docs/machines.md"
#: Facts of a deploy by the names that they are kept under.
FACTS = {
    "kernel": "kernel, architecture",
    "runs": "how it runs",
    "groups": "control groups",
    "apparmor": "AppArmor",
    "rdma": "`rdma link` on the worker",
    "first_chat": "first deploy, to a chat that is answered",
    "second": "second deploy",
    "to_cluster": "switch from replicas to a cluster, to a chat that is answered",
    "code": "last deploy with",
}
HEAD = """# Virtual machines

What `make test-machines` sees: two machines of qemu with a kernel of their own, on one machine with two cores and no
GPU. The deploy is whole: HAProxy, two LiteLLM, guard, canary and firewall on each node. Images are of the machines'
architecture. Replicas have Debian's llama-server as their engines. Each run writes what it has seen into
`machines.json` beside this page, and into this page.

**What is a double**: the engine of a cluster, since vLLM is too slow where its processor is emulated. It
(`tests/lab/images/vllm_double`) answers and counts as vLLM does, in as many ranks. It has no model, and its ranks meet
by sockets. Only the doctor's measure goes over RDMA. Hosts in namespaces have
[the real vLLM](faults.md), and [neither lab](first-hour.md#what-of-a-spark-is-still-not-met) has a GPU.

Emulated machines are many times as slow as a real one: no time here is a Spark's. A deploy waits ten times as long
there for a login and for LiteLLM. So does the canary before it kills LiteLLM or HAProxy.
"""
ROWS = """
Two streaming clients ask the head's proxy meanwhile. The columns are those of [the fault matrix](faults.md).
"""


@dataclass(frozen=True)
class Tried:
    """The last try of a test: when (UTC), with which commit, and its seconds."""

    at: str
    code: str
    took_s: float
    has_passed: bool = True


@dataclass
class Kept:
    """`machines`: by architecture, facts of a deploy by FACTS, and what the doctor said of RDMA. `tried`: tests by
    architecture and name.
    """

    machines: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    tried: dict[str, dict[str, Tried]] = field(default_factory=dict)


def read() -> Kept:
    """What earlier runs have seen."""
    if not PATH.exists():
        return Kept()
    kept = json.loads(PATH.read_text())
    tried = {arch: {name: Tried(**each) for name, each in tests.items()} for arch, tests in kept["tried"].items()}
    return Kept(kept["machines"], [Row(**row) for row in kept["rows"]], tried)


def tell(arch: str, **facts: str) -> None:
    """Keep facts of a deploy, in place of those of before."""
    kept = read()
    kept.machines[arch] = {**kept.machines.get(arch, {}), **facts}
    _write(kept)


def tried(arch: str, name: str, seen: Tried) -> None:
    """Keep the last try of a test."""
    kept = read()
    kept.tried.setdefault(arch, {})[name] = seen
    _write(kept)


def keep(row: Row) -> None:
    """Keep a row, in place of what was seen of the same fault before."""
    kept = read()
    scenes = [(topology, arch) for arch in ARCHITECTURES.values() for topology in TOPOLOGIES]
    faults = [(f"{topology}/{arch}", fault.name) for topology, arch in scenes for fault in of(topology)]
    _write(replace(kept, rows=markdown.ordered([*kept.rows, row], faults)))


def of(topology: str) -> list[Fault]:
    """The faults that are done to one of TOPOLOGIES."""
    return [fault for fault in FAULTS if topology in fault.scenes]


def page(kept: Kept) -> str:
    """All of it."""
    seen = [arch for arch in ARCHITECTURES.values() if arch in kept.machines]
    parts = [HEAD]
    if seen:
        parts += ["## The deploy\n", f"| | {' | '.join(seen)} |", "|---" * (len(seen) + 1) + "|"]
        told = {name: [kept.machines[arch].get(name, "") for arch in seen] for name in FACTS}
        parts += [f"| {FACTS[name]} | {' | '.join(each)} |" for name, each in told.items()]
        parts.append(f"| {REBOOT}, until it serves | {' | '.join(_reboot(kept, arch) for arch in seen)} |")
    for arch in seen:
        if doctor := kept.machines[arch].get("doctor"):
            parts.append(f"\n## What the doctor says of RDMA, {arch}\n\n```text\n{doctor}\n```")
    for arch in seen:
        # A row of a table of faults is a test too.
        tests = [(name, each) for name, each in sorted(kept.tried.get(arch, {}).items()) if "[" not in name]
        if tests:
            head = "| test | took, s | seen | with |"
            parts += [f"\n## Tests beside faults, {arch}\n", head, "|---|---|---|---|", *map(_line, tests)]
    for topology, arch in ((topology, arch) for arch in seen for topology in TOPOLOGIES):
        if rows := [row for row in kept.rows if row.scene == f"{topology}/{arch}"]:
            parts += [f"\n## Faults, {topology}, {arch}\n{ROWS}", *markdown.table(rows)]
            good = sum(row.is_good for row in rows)
            parts.append(f"\nSeen: {len(rows)} of {len(of(topology))} rows, {good} as expected.")
    if missing := [arch for arch in ARCHITECTURES.values() if arch not in seen]:
        parts.append(f"\nNot run for this page: {' and '.join(missing)}.")
    return "\n".join(parts) + "\n"


def _line(test: tuple[str, Tried]) -> str:
    """A row of a table; the test's name in words, behind its file's."""
    name, seen = test
    file, _, words = name.partition(".py::test_")
    topic = file.rpartition("_")[2]
    verdict = "passed" if seen.has_passed else "failed"
    return f"| {topic}: {words.replace('_', ' ')} | {seen.took_s:.0f} | {verdict} | {seen.code} |"


def _reboot(kept: Kept, arch: str) -> str:
    found = (row for row in kept.rows if (row.scene, row.fault) == (f"{REPLICAS}/{arch}", REBOOT))
    return next((f"{row.serves_again_s:.0f} s" for row in found), "")


def _write(kept: Kept) -> None:
    results.write(PATH, json.dumps(asdict(kept), indent=1) + "\n")
    results.write(PAGE, page(kept))
