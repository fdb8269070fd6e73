"""The nodes: the first is the head. Edit the two names (or addresses), and the login if it is not yours.

pyinfra inventory.py deploy.py --dry --diff    shows what would change
pyinfra -y inventory.py deploy.py              makes it so
"""

nodes = [
    ("spark-1.local", {}),
    # A node may name its rails itself where they can't be told from what is plugged in:
    # ("spark-2.local", {"fabric_interfaces": ["enp1s0f1np1", "enP2p1s0f1np1"]}),
    ("spark-2.local", {}),
]
