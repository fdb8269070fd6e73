"""The owner's firewall: which it is, and what it does to a connection, tried on a copy of its rules.

A copy in a network of its own answers for every kind of firewall, by the kernel's own verdict, before a rail has an
address; nobody's rules are touched. Tandem's walls are left out: they follow the plan.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv4Network
from itertools import islice
from pathlib import Path

from operations.node.commands import output, read
from operations.node.network.links import NET
from operations.shapes.fabric import Links, Office, Shut, Tried

UFW = Path("/etc/ufw/ufw.conf")
#: Seconds for all of it: what takes longer is not known.
LIMIT_S = 10
#: Reads rules and what is to be tried; says for each whether a connection comes through. A peer is a network of its own
#: at the other end of each netdev. `iif eth0` wants a netdev of that name.
_TRIAL = """
import ctypes, json, select, socket, subprocess, sys
told = json.loads(sys.stdin.readline())
libc, new_net = ctypes.CDLL(None, use_errno=True), 0x40000000
def run(*argv, given=None):
    subprocess.run(argv, input=given, text=True, check=True, capture_output=True)
def enter(network):
    if libc.setns(network.fileno(), new_net):
        raise OSError(ctypes.get_errno(), "setns")
def opened():
    if libc.unshare(new_net):
        raise OSError(ctypes.get_errno(), "unshare")
    return open("/proc/self/ns/net")
there = opened()
holder = subprocess.Popen(["sleep", "30"])
here = opened()
try:
    tried = list(dict.fromkeys(each["device"] for each in told["tries"]))
    # Some names are there in every network.
    dummies = "".join(f"link add {name} type dummy\\n" for name in told["others"] if name not in tried)
    subprocess.run(["ip", "-force", "-batch", "-"], input=dummies, text=True, capture_output=True)
    veths = [f"link add {name} type veth peer name far{n} netns {holder.pid}" for n, name in enumerate(tried)]
    run("ip", "-batch", "-", given="\\n".join(["link set lo up", *veths, ""]))
    run("iptables-restore", given=told["iptables"]) if told["iptables"] else None
    run("nft", "--file", "-", given=told["nft"]) if told["nft"] else None
    answers = []
    for each in told["tries"]:
        name, near, far = each["device"], each["own"], each["peer"]
        enter(here)
        run("ip", "address", "add", near, "dev", name)
        run("ip", "link", "set", name, "up")
        servers = []
        for port in each["ports"]:
            servers.append(socket.create_server((near.split("/")[0], port)))
        enter(there)
        run("ip", "address", "add", far, "dev", f"far{tried.index(name)}")
        run("ip", "link", "set", f"far{tried.index(name)}", "up")
        calls = []
        for port in each["ports"]:
            call = socket.socket()
            call.setblocking(False)
            call.connect_ex((near.split("/")[0], port))
            calls.append(call)
        waiting, came = list(calls), 0
        while waiting and (ready := select.select([], waiting, [], 0.5)[1]):
            came += sum(not call.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for call in ready)
            waiting = [call for call in waiting if call not in ready]
        answers.append(came == len(calls))
        for end in (*calls, *servers):
            end.close()
        run("ip", "address", "flush", "dev", f"far{tried.index(name)}")
        enter(here)
        run("ip", "address", "flush", "dev", name)
    print(json.dumps(answers))
finally:
    holder.kill()
"""


def tries(
    links: Links, office: Office, index: int, subnets: Sequence[str], ports: Sequence[int], door: int
) -> list[Tried]:
    """What is to come in: over each netdev that may be a rail, from each rail's subnet, to these ports; and from the
    office's network to the proxy's port, 0 where nobody comes in there. `index`: of the node, for its address.
    """
    live = [name for name, link in links.items() if link["carrier"]] or list(links)
    found: list[Tried] = []
    for device in live:
        for subnet in map(IPv4Network, subnets):
            own, peer = (f"{subnet.network_address + 11 + each}/{subnet.prefixlen}" for each in (index, index + 1))
            found.append({"device": device, "own": own, "peer": peer, "ports": list(ports), "is_door": False})
    if door and office:
        near = IPv4Interface(office["address"])
        far = next((f"{each}/{near.network.prefixlen}" for each in islice(near.network, 1, 3) if each != near.ip), "")
        found.append({"device": office["device"], "own": str(near), "peer": far, "ports": [door], "is_door": True})
    return found


def shut(wanted: Sequence[Tried]) -> list[Shut]:
    """Of connections that are to be let in those that this node's firewall drops or refuses, each with what it is and
    how it lets them in. Empty as well where its rules can't be copied: what the wire says comes later.
    """
    rules = _rules()
    if not wanted or not _may_drop(rules):
        return []
    others = sorted(folder.name for folder in NET.iterdir() if folder.name != "lo")
    given = json.dumps({"iptables": rules[0], "nft": rules[1], "tries": list(wanted), "others": others})
    try:
        argv = ["python3", "-c", _TRIAL]
        done = subprocess.run(argv, input=given + "\n", capture_output=True, text=True, timeout=LIMIT_S, check=False)
        came = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    found: list[Shut] = []
    for each in (each for each, comes in zip(wanted, came, strict=True) if not comes):
        by, remedy = _known(rules, [each["device"]], each["ports"] if each["is_door"] else [])
        found.append(
            {"device": each["device"], "own": each["own"], "is_door": each["is_door"], "by": by, "remedy": remedy}
        )
    return found


def known(devices: Sequence[str]) -> tuple[str, str]:
    """What may keep out what comes over these netdevs, and how it lets it in; two empty words where nothing does."""
    rules = _rules()
    return _known(rules, devices, []) if devices and _may_drop(rules) else ("", "")


def _rules() -> tuple[str, str]:
    """What iptables has, and the tables of nftables that are neither Tandem's nor iptables' own."""
    iptables = output("iptables-save")
    managed = set(re.findall(r"^\*(\w+)", iptables, re.MULTILINE))
    tables = re.findall(r"^table (ip|inet|netdev) (\S+)", output("nft", "list", "tables"), re.MULTILINE)
    return iptables, "".join(
        output("nft", "list", "table", family, name)
        for family, name in tables
        if not (family == "ip" and name in managed) and (family, name) != ("inet", "tandem")
    )


def _may_drop(rules: tuple[str, str]) -> bool:
    """Whether anything is there that looks at what comes in; Docker alone has nothing of it."""
    text = "\n".join(rules)
    return bool(re.search(r"^(-A INPUT|:INPUT DROP)|hook (input|prerouting|ingress)", text, re.MULTILINE))


def _known(rules: tuple[str, str], devices: Sequence[str], ports: Sequence[int]) -> tuple[str, str]:
    """The firewall, and what lets in what comes over these netdevs, to these ports alone where some are named."""
    if re.search(r"^ENABLED=yes", read(UFW), re.MULTILINE):
        to = "".join(f" to any port {port} proto tcp" for port in ports)
        return "ufw", " && ".join(f"sudo ufw allow in on {device}{to}" for device in devices)
    if output("firewall-cmd", "--state").strip() == "running":
        trusted = [f"--zone=trusted --change-interface={device}" for device in devices]
        words = [f"--add-port={port}/tcp" for port in ports] or trusted
        commands = [f"sudo firewall-cmd --permanent {each}" for each in words]
        return "firewalld", " && ".join([*commands, "sudo firewall-cmd --reload"])
    chain = re.search(
        r"table (\S+ \S+) \{(?:(?!\ntable ).)*?chain (\S+) \{\s*type filter hook input", rules[1], re.DOTALL
    )
    if chain:
        to = "".join(f" tcp dport {port}" for port in ports)
        commands = [f"sudo nft insert rule {chain[1]} {chain[2]} iifname {device}{to} accept" for device in devices]
        return f"nftables' table {chain[1]}", " && ".join(commands) + " (and in the file that loads it)"
    to = "".join(f" -p tcp --dport {port}" for port in ports)
    commands = [f"sudo iptables -I INPUT -i {device}{to} -j ACCEPT" for device in devices]
    return "iptables' chain INPUT", " && ".join(commands) + " (and where your rules are kept)"
