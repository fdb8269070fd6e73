"""`tandem scrape-config`: what a Prometheus on one of the nodes is told to find them all, from the knobs; of three
nodes, which may be a ring, from those that export already.
"""

import sys

from pyinfra import host, inventory

from operations.node.monitoring import exported
from operations.plan.cluster.ring import SIZE
from operations.plan.plan import as_a_whole
from operations.plan.services.monitoring import RULES, addresses_by_knobs, scrape_config, targets
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import refusals_told
from operations.wire.monitoring import Exported

if host == next(iter(inventory)):
    with refusals_told():
        declared, names = wanted(dict(host.data.dict())), [each.name for each in inventory]
        knobs = as_a_whole(declared, names)
    if knobs.monitoring == "off":
        off = 'nothing is exported: set monitoring = "metrics" in group_data/all.py, and deploy'
        print(f"note: {off}", file=sys.stderr)
    else:
        addresses = addresses_by_knobs(knobs, names)
        if len(names) == SIZE and knobs.topology != "solo":
            for each in this_run().answering:
                told: Exported | None = ask_or_none(each, exported.main)
                if told and told["address"]:
                    addresses[each.name] = told["address"]
        print(scrape_config(targets(knobs, addresses)), end="")
        print(f"# The alarms that come with Tandem, for rule_files: {RULES}")
