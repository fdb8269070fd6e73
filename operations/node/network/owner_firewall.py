"""The owner's firewall: which it is, and what it does to a connection, tried on a copy of its rules.

A copy in a network of its own answers for every kind of firewall, by the kernel's own verdict, before a rail has an
address; nobody's rules are touched. Tandem's own table is left out: it follows the plan.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Interface, IPv4Network
from itertools import islice
from pathlib import Path

from operations.node.commands import output, read
from operations.node.network.links import NET
from operations.wire.fabric import Links, Office, Shut, Tried

UFW = Path("/etc/ufw/ufw.conf")
#: Of rules and connections of which nothing was to be said when they were last tried: a try costs a second or two.
OPEN = Path("/run/tandem/firewall.open")
#: Seconds for all of it: what takes longer is not known.
LIMIT_S = 20
#: Reads rules and what is to come in over one netdev; says for each whether it does. The peer is a network of its own
#: at the other end. All has to come through before the rules are there: what then does not is kept out by them.
_TRIAL = """
import ctypes, json, select, socket, subprocess, sys, time
told = json.loads(sys.stdin.readline())
libc, new_net = ctypes.CDLL(None, use_errno=True), 0x40000000
def run(*argv, given=None, check=True):
    subprocess.run(argv, input=given, text=True, check=check, capture_output=True)
def enter(network):
    if libc.setns(network.fileno(), new_net):
        raise OSError(ctypes.get_errno(), "setns")
def opened():
    if libc.unshare(new_net):
        raise OSError(ctypes.get_errno(), "unshare")
    return open("/proc/self/ns/net")
def come(tries, seconds):
    calls = {}
    for number, each in enumerate(tries):
        for port in each["ports"]:
            call = socket.socket()
            call.setblocking(False)
            call.connect_ex((each["own"].split("/")[0], port))
            calls[call] = number
    end, waiting, kept_out = time.monotonic() + seconds, list(calls), set()
    while waiting and (ready := select.select([], waiting, [], max(end - time.monotonic(), 0))[1]):
        kept_out |= {calls[call] for call in ready if call.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)}
        waiting = [call for call in waiting if call not in ready]
    kept_out |= {calls[call] for call in waiting}
    [call.close() for call in calls]
    return [number not in kept_out for number in range(len(tries))]
there = opened()
holder = subprocess.Popen(["sleep", "30"])
here = opened()
try:
    device = told["tries"][0]["device"]
    # Some names are there in every network; `iif eth0` wants a netdev of that name.
    dummies = [f"link add {name} type dummy" for name in told["others"] if name != device]
    run("ip", "-force", "-batch", "-", given="\\n".join([*dummies, ""]), check=False)
    words = ["link set lo up", f"link add {device} type veth peer name far netns {holder.pid}"]
    words += [f"address add {each['own']} dev {device}" for each in told["tries"]]
    run("ip", "-batch", "-", given="\\n".join([*words, f"link set {device} up", ""]))
    places = [(each["own"].split("/")[0], port) for each in told["tries"] for port in each["ports"]]
    servers = [socket.create_server(place) for place in places]
    enter(there)
    words = [f"address add {each['peer']} dev far" for each in told["tries"]]
    run("ip", "-batch", "-", given="\\n".join([*words, "link set far up", ""]))
    if not all(come(told["tries"], 3)):
        sys.exit("no connection comes through without rules either")
    enter(here)
    if told["iptables"]:
        # iptables' lock is one for all networks: Docker, or the owner's tools, may have it just now.
        run("iptables-restore", "--wait", "10", given=told["iptables"])
    if told["nft"]:
        run("nft", "--file", "-", given=told["nft"])
    enter(there)
    # Twice: nobody is refused for a hiccup.
    came = come(told["tries"], 0.5)
    print(json.dumps(came if all(came) else come(told["tries"], 1.5)))
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
            # The head is there for every other node, and a second one for the head.
            ends = (index, int(index == 0))
            own, peer = (f"{subnet.network_address + 11 + each}/{subnet.prefixlen}" for each in ends)
            found.append({"device": device, "own": own, "peer": peer, "ports": list(ports), "is_door": False})
    if door and office:
        near = IPv4Interface(office["address"])
        far = next((f"{each}/{near.network.prefixlen}" for each in islice(near.network, 1, 3) if each != near.ip), "")
        found.append({"device": office["device"], "own": str(near), "peer": far, "ports": [door], "is_door": True})
    return found


def shut(wanted: Sequence[Tried]) -> list[Shut]:
    """Wanted connections that the node's own firewall blocks, each with the firewall's name and the command that opens
    it. Empty as well where its rules can't be copied: the fabric's proof tests the wire later.
    """
    rules = _rules()
    if not wanted or not _may_drop(rules) or read(OPEN) == (mark := _mark(wanted, rules)):
        return []
    by_device: dict[str, list[Tried]] = {}
    for each in wanted:
        by_device.setdefault(each["device"], []).append(each)
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda tried: _kept_out(tried, rules), by_device.values()))
    found: list[Shut] = []
    for each in (each for kept_out in told for each in kept_out or []):
        if each["is_door"] and _lets_some_in(rules, each["ports"][0]):
            continue
        by, remedy = _known(rules, [each["device"]], each["ports"] if each["is_door"] else [])
        found.append(
            {
                "device": each["device"],
                "own": each["own"],
                "peer": each["peer"],
                "is_door": each["is_door"],
                "by": by,
                "remedy": remedy,
            }
        )
    if not found and None not in told:
        OPEN.parent.mkdir(parents=True, exist_ok=True)
        OPEN.write_text(mark)
    return found


def _mark(wanted: Sequence[Tried], rules: tuple[str, str]) -> str:
    """Hash of these connections and rules, without the rules' counters and the time of reading."""
    counted = r"\[\d+:\d+\]|packets \d+ bytes \d+|^#.*$"
    plain = [re.sub(counted, "", text, flags=re.MULTILINE) for text in rules]
    return hashlib.sha256(json.dumps([wanted, plain]).encode()).hexdigest()


def _lets_some_in(rules: tuple[str, str], port: int) -> bool:
    """Whether a rule names this port and lets in whom it is for: then the others are kept out on purpose."""
    iptables = rf"^-A (?!DOCKER|FORWARD|OUTPUT).* --dports? \S*\b{port}\b.* -j (?!DROP|REJECT|LOG|DNAT)"
    nft = rf"dport (\{{[^}}]*)?\b{port}\b.*\b(accept|jump|goto)"
    return bool(re.search(iptables, rules[0], re.MULTILINE) or re.search(nft, rules[1]))


def _kept_out(tried: Sequence[Tried], rules: tuple[str, str]) -> list[Tried] | None:
    """Which of these connections, all over one netdev, are blocked; None: the rules could not be tried."""
    others = sorted(folder.name for folder in NET.iterdir() if folder.name != "lo")
    given = json.dumps({"iptables": rules[0], "nft": rules[1], "tries": list(tried), "others": others})
    try:
        argv = ["python3", "-c", _TRIAL]
        done = subprocess.run(argv, input=given + "\n", capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return [each for each, comes in zip(tried, json.loads(done.stdout), strict=True) if not comes]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


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
