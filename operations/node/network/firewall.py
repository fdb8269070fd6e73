"""Tandem's table of nftables on this node: whether it is in force, and what the node can tell packets apart by."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from operations.paths import FIREWALL_SCRIPT
from operations.wire.look import Firewall, FirewallState

#: Where nft looks for control groups, whatever is mounted elsewhere.
CGROUPS = Path("/sys/fs/cgroup")
#: Seconds for one of these looks, which takes two. Beside all others, on emulated machines, it took more than twenty,
#: and a firewall of which nothing is known is loaded anew.
LOOK_S = 60
#: In a network of its own, and in the control group that is its argument: listens, connects to itself, and ends with 0
#: when a rule for the group has counted the packet.
_PROBE = """
import socket, subprocess, sys
group = sys.argv[1]
open(f"/sys/fs/cgroup/{group}/cgroup.procs", "w").write("0")
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
rules = 'table inet probe { counter seen {}; chain input { type filter hook input priority 0; '
rules += f'socket cgroupv2 level 1 "{group}" counter name seen; ct direction reply accept; }}; }}'
subprocess.run(["nft", "--file", "-"], input=rules, text=True, check=True)
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 10).close()
listed = subprocess.run(["nft", "list", "counters"], capture_output=True, text=True, check=True).stdout
sys.exit("packets 0 " in listed)
"""


def state() -> FirewallState:
    """`problem`: why the rules that lie here are not in force; empty: they are."""
    found: FirewallState = {"problem": _problem()}
    if inside := _inside():
        found["inside"] = inside
    return found


#: What says by which interfaces everything is let in, as `interfaces` reads it.
INSIDE = ("nft", "--json", "list", "set", "inet", "tandem", "inside")


def interfaces(said: str) -> list[str]:
    """The elements of nft's set; none where there is no set."""
    try:
        return [str(name) for part in json.loads(said)["nftables"] for name in part.get("set", {}).get("elem", [])]
    except (ValueError, KeyError):
        return []


def _inside() -> list[str]:
    try:
        return interfaces(subprocess.run(INSIDE, capture_output=True, text=True, timeout=LOOK_S, check=False).stdout)
    except (OSError, subprocess.TimeoutExpired):
        return []


def _problem() -> str:
    try:
        done = subprocess.run([FIREWALL_SCRIPT, "problem"], capture_output=True, text=True, timeout=LOOK_S, check=False)
    except FileNotFoundError:
        return "no firewall of Tandem's is here"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{FIREWALL_SCRIPT}: {error}"
    return (done.stdout or done.stderr).strip()


def able() -> Firewall:
    """`nft`: whether nftables can be set here; `groups`: whether a rule can tell a socket by its control group."""
    try:
        has_nft = (
            subprocess.run(["nft", "list", "tables"], capture_output=True, timeout=LOOK_S, check=False).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        has_nft = False
    # Twice: what a node can is part of its engine's command line, and a hiccup shall restart none.
    return {"nft": has_nft, "groups": has_nft and (_tells_groups() or _tells_groups())}


def _tells_groups() -> bool:
    """Tried, because nothing else says it: it takes cgroup v2, a kernel with CONFIG_NFT_SOCKET, and, where the node is
    itself a container, Linux 6.11, which counts the levels of groups from the container's own.
    """
    if not (CGROUPS / "cgroup.controllers").exists():
        return False
    group = CGROUPS / f"tandem-probe-{os.getpid()}"
    try:
        group.mkdir()
        argv = ["unshare", "--net", "python3", "-c", _PROBE, group.name]
        return subprocess.run(argv, capture_output=True, timeout=LOOK_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        # It may never have been made.
        with suppress(OSError):
            group.rmdir()
