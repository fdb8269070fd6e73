"""Model and image copies on the lab, side by side in one run: Tandem's, `cp` on the same disk, and the peers' commands.

    make bench-transfer [ROUNDS=3] [GIB=8]

GIB is the model that one worker gets: with a small one the start of the programs counts, and what `cp` takes depends on
what is in hand of memory. It copies through the page cache, and a virtual machine pays for a page that its host has to
find: 2.2 s for 3.2 GB once that much had been touched, 5 to 6 s before, 15 to 23 s for 8.6 GB (one machine, one day).

Boots eight nodes. All share two cores and one disk, so one worker is measured at full speed, and what happens with more
on links that are held to RATE: there a link is the limit, as it is for a head that feeds seven workers.
"""

from __future__ import annotations

import json
import os
import sys

from tests.bench import images, models
from tests.bench.copies import FOLDER, KEY, WORKERS
from tests.bench.runs import report
from tests.lab import cluster
from tests.lab.settings import SSH_KEY, LabNode, known_nodes

ROUNDS = int(os.environ.get("ROUNDS", "3"))
GIB = float(os.environ.get("GIB", "8"))
RESULT = cluster.ROOT / "bench-transfer.json"


def main() -> int:
    """Measure, print tables with ratios, write bench-transfer.json."""
    nodes = known_nodes()
    head, workers = nodes[0], nodes[1:]
    if len(workers) < max(WORKERS):
        print(f"the bench needs {max(WORKERS) + 1} nodes: `make bench-transfer` boots them", file=sys.stderr)
        return 1
    # Fabric and images, as a deploy leaves them; nothing shall run beside the copies.
    if cluster.deploy(topology="solo").code or cluster.deploy(file="operations/verbs/down.py").code:
        print("the lab's own deploy fails; `tandem apply --inventory tests/lab/inventory.py` says why", file=sys.stderr)
        return 1
    (head.root / KEY.lstrip("/")).write_text(SSH_KEY.read_text())
    (head.root / KEY.lstrip("/")).chmod(0o600)
    try:
        runs = [models.to_one(head, workers[0], GIB, ROUNDS), models.to_more(head, workers, ROUNDS)]
        runs += [*images.to_one(head, workers[0], ROUNDS), *images.to_more(head, workers, ROUNDS)]
    finally:
        clean(nodes)
    for each in runs:
        report(each)
    rate = models.hash_rate()
    print(models.arithmetic(runs[0], rate))
    RESULT.write_text(json.dumps({"rounds": ROUNDS, "sha256": rate, "runs": [vars(each) for each in runs]}, indent=1))
    return 0


def clean(nodes: list[LabNode]) -> None:
    """Take away what the bench put on the nodes."""
    for each in nodes:
        made = f"/var/lib/tandem-bench /var/lib/tandem/models/{FOLDER} /root/bench-image /root/layer"
        left = f"{made} {images.ARCHIVE} {KEY}"
        cluster.on(each, f"rm -rf {left}; docker rmi $(docker images --quiet 'tandem-bench/*')", check=False)


if __name__ == "__main__":
    sys.exit(main())
