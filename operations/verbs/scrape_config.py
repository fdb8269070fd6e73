"""`make scrape-config`: what a Prometheus on one of the nodes is told to find them all, from the knobs alone."""

import sys

from pyinfra import host, inventory

from operations.plan.monitoring import RULES, scrape_config, targets
from operations.plan.plan import as_a_whole
from operations.plan.wanted import wanted
from operations.verbs.report import refusals_told

if host == next(iter(inventory)):
    with refusals_told():
        declared, names = wanted(dict(host.data.dict())), [each.name for each in inventory]
        knobs = as_a_whole(declared, names)
    if knobs.monitoring == "off":
        off = 'nothing is exported: set monitoring = "metrics" in group_data/all.py, and deploy'
        print(f"note: {off}", file=sys.stderr)
    else:
        print(scrape_config(targets(knobs, names)), end="")
        print(f"# The alarms that come with Tandem, for rule_files: {RULES}")
