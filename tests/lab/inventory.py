"""The lab's nodes, for the same deploy: `pyinfra -y tests/lab/inventory.py deploy.py`."""

from tests.lab.settings import KNOWN_HOSTS, LOGIN, SSH_KEY, known_nodes

nodes = [
    (
        _node.name,
        {
            "ssh_hostname": _node.address,
            "ssh_user": LOGIN,
            "ssh_key": str(SSH_KEY),
            "ssh_known_hosts_file": str(KNOWN_HOSTS),
            "ssh_strict_host_key_checking": "yes",
        },
    )
    for _node in known_nodes()
]

if not nodes:
    # Of an exception pyinfra would print a traceback.
    raise SystemExit("the lab has no hosts: `make lab-up`, or unset INVENTORY")
