"""`python -m tests.lab`: boot, look at, break and remove the lab."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import builder, cgroup, desk, network, node, watch
from tests.lab.settings import CONSOLES, HOME, LINKS, SSH_KEY, LabNode, known_nodes
from tests.lab.shell import LabError, run, say, step


def up(count: int) -> None:
    """Boot `count` nodes; what runs already is left alone."""
    wanted = desk.chosen(os.environ, count)
    has_kept_disks = desk.wants_kept_disks(os.environ, wanted)
    HOME.mkdir(parents=True, exist_ok=True)
    if not SSH_KEY.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tandem-lab", "-f", SSH_KEY)
    shared = node.HOSTS.prepare(wanted, count)
    nodes = [LabNode(index) for index in range(count)]
    _remove_others(nodes, wanted, shared)
    new = [each for each in nodes if each not in known_nodes()]
    desk.remember(wanted)
    for each in new:
        each.console.unlink(missing_ok=True)
    if has_kept_disks and new != nodes:
        say("nodes that are there already keep their disks, and new ones begin bare")
    elif has_kept_disks and not node.HOSTS.give(nodes, shared):
        say(f"no disks are kept of {count} nodes of {wanted.kind}: they begin bare")
    for each in nodes:
        node.make(each, wanted, shared)
    network.wire_up(nodes)
    watch.start()
    node.write_known_hosts(nodes)
    if all(cgroup.is_running(each) for each in nodes):
        say(f"{count} nodes are up ({wanted})")
        return
    with step(f"booting {count} nodes ({wanted})"):
        for each in nodes:
            node.power_on(each)
        wait_for(nodes, new)


def wait_for(nodes: list[LabNode], new: list[LabNode]) -> None:
    """Until all are up; when one does not come up, none is left running, and none that is `new`."""
    try:
        for each in nodes:
            node.wait_until_up(each)
    except LabError:
        for each in nodes:
            try:
                # What a node has that was there before may have taken long to make.
                (node.remove if each in new else node.power_off)(each)
            except LabError as error:
                say(f"{each.name} is not gone: {error}")
        if new == nodes:
            _tear_down(nodes)
        raise


def _remove_others(nodes: list[LabNode], wanted: desk.Desk, shared: Path) -> None:
    """Remove nodes that are too many, and all where another kind is wanted."""
    there = desk.remembered()
    for each in known_nodes():
        if each not in nodes:
            say(f"{each.name} is one more than wanted: removed")
        elif not there.has_nodes_of(wanted):
            say(f"{each.name} is {there.kind}: removed, and made anew")
        elif not node.HOSTS.is_whole(each, shared):
            say(f"{each.name} was made by an older lab: removed, and made anew")
        else:
            continue
        node.remove(each)


def down() -> None:
    """Remove nodes, namespaces and bridges, also those of an `up` that crashed; the cache stays."""
    # Nodes of another kind would be half removed.
    desk.remembered()
    nodes = known_nodes()
    for each in nodes:
        node.remove(each)
    builder.clean_up()
    _tear_down(nodes)
    shutil.rmtree(CONSOLES, ignore_errors=True)
    say("down: no process, mount, namespace or bridge is left; the cache stays in " + str(HOME / "cache"))


def _tear_down(nodes: list[LabNode]) -> None:
    """End the watcher of cables, remove the network, and forget of what kind the nodes were."""
    watch.end()
    network.tear_down(nodes)
    desk.KEPT.unlink(missing_ok=True)


def status() -> None:
    """How it is wired and what its nodes run; one line per node: running or not, its address, what systemd says."""
    kept = desk.remembered()
    is_seen_to = kept.wiring == "switch" or not network.WIRES.IS_WATCHED or watch.is_running()
    watched = "" if is_seen_to else "\tcables are not watched: `up` mends it"
    print(f"wiring {kept.wiring}\tOS {kept.system}\trenderer {kept.renderer}\tarchitecture {kept.arch}{watched}")
    for each in known_nodes():
        running = cgroup.is_running(each)
        state = run(*node.ssh_argv(each), "systemctl is-system-running", check=False).strip() if running else ""
        print(f"{each.name}\t{each.address}\t{'on' if running else 'off'}\t{state or '-'}")


def keep() -> None:
    """Shut all nodes down, keep copies of their disks, and boot them again."""
    nodes, within_s = known_nodes(), node.HOSTS.BOOT_S
    if off := [each.name for each in nodes if not cgroup.is_running(each)] or ([] if nodes else ["every node"]):
        raise LabError(f"{', '.join(off)} is off: all are kept or none; `python -m tests.lab up` boots them")
    node.HOSTS.can_keep(nodes)
    try:
        for each in nodes:
            run(*node.ssh_argv(each), "sudo systemctl poweroff", check=False)
        deadline = time.monotonic() + within_s
        while left := [each for each in nodes if cgroup.is_running(each)]:
            if time.monotonic() > deadline:
                raise LabError(f"{left[0].name} is not off after {within_s:.0f} s; its console is {left[0].console}")
            time.sleep(0.5)
        node.HOSTS.keep(nodes)
    finally:
        for each in nodes:
            node.power_on(each)
        for each in nodes:
            node.wait_until_up(each)


def reboot(targets: list[LabNode]) -> None:
    """Reboot nodes the polite way, all at once, and wait for them."""
    within_s = node.HOSTS.BOOT_S + 30
    before = {each.name: node.boot_id(each) for each in targets}
    for each in targets:
        run(*node.ssh_argv(each), "sudo systemctl reboot", check=False)
    for each in targets:
        deadline = time.monotonic() + within_s
        while node.boot_id(each) in ("", before[each.name]):
            if time.monotonic() > deadline:
                raise LabError(f"{each.name} did not reboot in {within_s:.0f} s; its console is {each.console}")
            time.sleep(0.5)
        node.wait_until_up(each)
        say(f"{each.name} has rebooted")


def main() -> int:
    """Parse the command line and do what it says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    choices = "NODES=2, WIRING=cable|ring|switch, OS=debian12|debian13, RENDERER=networkd|NetworkManager, "
    choices += "DISKS=bare|kept, and for every verb MACHINES=namespaces|vm; with vm ARCH=amd64|arm64"
    verbs.add_parser("up", help=f"boot the nodes (in the environment: {choices})")
    verbs.add_parser("down", help="remove everything but the cache")
    verbs.add_parser("keep", help="shut machines down and keep copies of their disks, for `up` with DISKS=kept")
    verbs.add_parser("status", help="wiring and kind, and one line per node")
    verbs.add_parser("inventory", help="the nodes as JSON, as the deploy sees them")
    ssh = verbs.add_parser("ssh", help="a shell, or one command, on a node")
    ssh.add_argument("node")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    for verb in ("reboot", "power-off", "power-on"):
        verbs.add_parser(verb, help="NODE, or `all`").add_argument("node")
    for verb, what in (("freeze", "let a machine stand still, its kernel too"), ("thaw", "let it go on")):
        verbs.add_parser(verb, help=f"{what} (MACHINES=vm): NODE, or `all`").add_argument("node")
    kernel = verbs.add_parser("kernel", help="the kernel from the next boot on (MACHINES=vm): NODE, or `all`")
    kernel.add_argument("node")
    kernel.add_argument("kernel", choices=("own", "other"), help="`other` has no RDMA")
    for verb in ("cut", "heal"):
        help_text = "a LINK: mgmt or rail0 to rail3 for all nodes, or NODE:LINK for one; a cable is cut at both ends"
        verbs.add_parser(verb, help=help_text).add_argument("link")
    for verb in ("take", "give"):
        help_text = (
            "a rail's netdev (rail0 to rail3, or NODE:LINK), as it goes and comes with its cable on a ConnectX-7"
        )
        verbs.add_parser(verb, help=help_text).add_argument("link")
    for verb, how in (("move", "by a reboot"), ("renumber", "while it runs")):
        moving = verbs.add_parser(verb, help=f"NODE LAST: another address in the office, with this last byte, {how}")
        moving.add_argument("node")
        moving.add_argument("last", type=int)
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise LabError("booting hosts needs root: run it again with sudo, or as root")
    return _do(args)


def _do(args: argparse.Namespace) -> int:
    match args.verb:
        case "up":
            up(_node_count())
        case "down":
            down()
        case "keep":
            keep()
        case "status":
            status()
        case "inventory":
            print(json.dumps({each.name: each.address for each in known_nodes()}, indent=2))
        case "ssh":
            return subprocess.run([*node.ssh_argv(_one(args.node)), *args.command], check=False).returncode
        case "freeze" | "thaw":
            act = node.HOSTS.freeze if args.verb == "freeze" else node.HOSTS.thaw
            for each in _named(args.node):
                act(each)
        case "kernel":
            for each in _named(args.node):
                node.HOSTS.choose_kernel(each, args.kernel)
        case "reboot":
            reboot(_named(args.node))
        case "power-off":
            for each in _named(args.node):
                node.power_off(each)
        case "power-on":
            for each in _named(args.node):
                node.power_on(each)
            for each in _named(args.node):
                node.wait_until_up(each)
        case "move" | "renumber":
            moved = _one(args.node)
            if not 2 <= args.last <= 254:
                raise LabError(f"{args.last} is no end of an address: expected 2 to 254")
            node.move(moved, args.last, rebooting=args.verb == "move")
            node.wait_until_up(moved)
        case "cut" | "heal":
            where, _, link = args.link.rpartition(":")
            for each in _named(where or "all"):
                network.set_link(each, link, up=args.verb == "heal")
        case "take" | "give":
            where, _, link = args.link.rpartition(":")
            for each in _named(where or "all"):
                if args.verb == "take":
                    network.take(each, link)
                    continue
                network.give(each, link)
                node.greet(each, LINKS[link], check=False)
    return 0


def _node_count() -> int:
    text = os.environ.get("NODES") or "2"
    if not text.isdigit() or not 1 <= int(text) <= 9:
        raise LabError(f"NODES is `{text}`: expected a number from 1 to 9")
    return int(text)


def _named(name: str) -> list[LabNode]:
    return known_nodes() if name == "all" else [_one(name)]


def _one(name: str) -> LabNode:
    for each in known_nodes():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in known_nodes()) or "none; `python -m tests.lab up` makes them"
    raise LabError(f"no node `{name}`: the lab has {names}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped; `python -m tests.lab up` goes on from here, `down` removes what was begun")
        sys.exit(130)
