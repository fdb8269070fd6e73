"""Names and paths of what Tandem puts on a node: what the plan and the programs that run there both know.

It is sent to nodes with these programs, so it needs nothing but the standard library, and Python 3.10.
"""

from __future__ import annotations

from operations.wire.look import SecretFolder

ETC = "/etc/tandem"
VAR = "/var/lib/tandem"
SYSTEMD = "/etc/systemd/system"
NETPLAN = "/etc/netplan/90-tandem-fabric.yaml"
NETWORK_MANAGER = "/etc/NetworkManager/conf.d/90-tandem-fabric.conf"
#: For systemd-sysctl.
SYSCTL = "/etc/sysctl.d/90-tandem-fabric.conf"
#: What says how the rails are to be.
FABRIC = (NETPLAN, NETWORK_MANAGER, SYSCTL)
#: The netdevs of a multi-port NIC by their names, as a pattern of systemd-sysctl's: all ports of a ConnectX, be they
#: rails or not. Two of them in one switch hear each other.
NIC_NETDEVS = "en[pP]*s*f*np*"
#: The kernel's settings of these and of the rails (net.ipv4.conf.NETDEV): it answers ARP for its own address alone, and
#: asks from the address of the subnet that it asks in (Documentation/networking/ip-sysctl.rst).
ARP = {"arp_ignore": "1", "arp_announce": "2"}

#: The engine; of a model among several its name begins so (operations/plan/cluster/served_model.py).
ENGINE = "tandem-engine"
#: HAProxy, which clients reach, and the two LiteLLM behind it.
PROXY = "tandem-proxy"
LITELLM = ("tandem-litellm-a", "tandem-litellm-b")
#: The container that downloads a model, while it does.
DOWNLOAD = "tandem-download"
#: keepalived, for the virtual address.
ADDRESS = "tandem-address"
#: Which ports a model among several has, in its engine's folder: it keeps them.
SLOT = "slot"
#: What engines have compiled, by image.
CACHE = f"{VAR}/cache"

#: What has one node of a cluster serve alone, and the drop-in of the engine's unit that is there while it does
#: (files/fallback/fallback.py).
FALLBACK = "tandem-fallback"
ALONE = f"/run/systemd/system/{ENGINE}.service.d/tandem-alone.conf"
#: Since when, and why; there as long.
ALONE_SINCE = "/run/tandem/alone.json"

#: What loads models on demand and unloads them (files/ondemand), and what it says of them, for people.
ONDEMAND = "tandem-ondemand"
ONDEMAND_SAYS = "/run/tandem/ondemand/says.json"

#: What says how a node is, for Prometheus (files/exporter).
EXPORTER = "tandem-exporter"
#: On the head: what keeps what the exporters say, and what sends its alarms.
PROMETHEUS = "tandem-prometheus"
ALERTMANAGER = "tandem-alertmanager"
#: Passwords and tokens of those whom alarms are sent to (operations/steps/prometheus.py).
ALARM_SECRETS = f"{ETC}/alertmanager/secrets"
#: What tells it to people, behind the proxy at /tandem/ (files/page).
PAGE = "tandem-page"
#: What it is told of benches and advice (operations/node/monitoring/handed.py).
ADVICE = f"{VAR}/page/advice.json"
CANARY = "tandem-canary"
GUARD = "tandem-guard"
#: What follows the addresses of the interface that the login came in over (files/office/office.py): what it says of
#: them until the next boot, for HAProxy and keepalived, and what it has heard last of the other nodes'.
OFFICE = "tandem-office"
OFFICE_RUN = "/run/tandem/office"
OFFICE_KNOWN = f"{VAR}/office.json"
#: Stands in a URL for that interface's address, which may be another one tomorrow.
AT_OFFICE = "@office"
FIREWALL = "tandem-firewall"
#: How its unit was called before: an upgrade takes it along (operations/steps/firewall.py).
FORMER_FIREWALL = "tandem-walls"
FIREWALL_SCRIPT = "/etc/tandem/firewall/firewall.sh"
#: The routes that are loaded beside it.
FIREWALL_ROUTES = "/run/tandem/firewall.routes"
#: The control group of the engine's container, by which its sockets are known (files/firewall/tandem.nft.j2).
SLICE = "tandem.slice"


def unit_file(unit: str) -> str:
    """Where systemd finds a unit of ours."""
    return f"{SYSTEMD}/{unit}.service"


#: Stamps of model files whose content was proven (operations/node/model/proof.py writes them).
PROVEN = f"{VAR}/models"

#: What all engines may read.
ENGINE_SECRETS = f"{ETC}/engine/secrets"
RAY_TOKEN = f"{ENGINE_SECRETS}/ray.token"
PROXY_KEY = f"{ETC}/proxy/secrets/master.key"
#: Who runs the containers of HAProxy and LiteLLM, user and group: nobody else on a node. Debian and systemd both keep
#: 65520 to 65533 free.
PROXY_USER = 65530
#: Hashes of keys of clients (operations/node/door/keys.py).
CLIENT_KEYS = f"{ETC}/proxy/secrets/keys.json"
PROXY_CONFIG = f"{ETC}/proxy/haproxy.cfg"
#: The name that clients ask for; of several models the first one's.
PROXY_MODEL = f"{ETC}/proxy/model"
#: HAProxy's own folder, of PROXY_USER's (files/proxy/ready.sh.j2), and its socket there, for root beside itself.
PROXY_RUN = "/run/tandem/proxy"
ADMIN = f"{PROXY_RUN}/admin.sock"
#: The hash of the configuration that HAProxy has loaded last (files/proxy/ready.sh.j2, reload.sh.j2). Not in its
#: folder: root writes it, and would follow a link that HAProxy could put there.
PROXY_LOADED = "/run/tandem/proxy.loaded"
#: Where HAProxy and both LiteLLM listen for each other and for what watches them. The folder is PROXY_USER's, its
#: sockets are of root's group, and nobody else gets there: a port of loopback's is anybody's while its owner is away.
SOCKETS = "/run/tandem/sockets"
#: HAProxy says here that it runs, to its own node.
PROXY_ASKED = f"unix:{SOCKETS}/proxy.sock"
#: What HAProxy sees of the page: root's, with a folder in it that systemd makes at each start of the page, for its user
#: (RuntimeDirectory=). This one stays when the page goes: a container keeps the folder that it was started with.
PAGE_RUN = "/run/tandem/behind"
PAGE_SOCKET = f"{PAGE_RUN}/page/page.sock"
#: What a node's LiteLLM know of each other (files/litellm/shared.py), PROXY_USER's.
SHARED = "/run/tandem/litellm"
#: What each key of a client's has used (the proxy writes it, operations/node/door/keys.py reads it).
KEYS_USED = f"{VAR}/keys"
#: The proxy's key and certificate (operations/node/door/certificate.py).
TLS = f"{ETC}/tls"
#: On the head, the authority that signs the certificates of all nodes.
AUTHORITY = f"{ETC}/ca"
#: Folders with what one program alone may read, with the user whose they and all files in them are. One has to be where
#: another is (`where`): counts beside keys (operations/node/secret/modes.py).
SECRETS: tuple[SecretFolder, ...] = (
    {"path": ENGINE_SECRETS, "user": 0},
    {"path": f"{ETC}/proxy/secrets", "user": PROXY_USER},
    {"path": TLS, "user": PROXY_USER},
    {"path": AUTHORITY, "user": 0},
    {"path": ALARM_SECRETS, "user": 0},
    {"path": KEYS_USED, "user": PROXY_USER, "where": f"{ETC}/proxy/secrets"},
)


def folder_of(unit: str) -> str:
    """Where a unit's scripts and configuration lie."""
    return f"{ETC}/{unit.removeprefix('tandem-')}"


def run_folder(unit: str) -> str:
    """Where what runs of a unit says how it is, until the next boot. Which container it is, is beside it (`.cid`)."""
    return f"/run/tandem/{unit.removeprefix('tandem-')}"
