"""`make scrape-config`: what a Prometheus on one of the nodes is told to find them all, from the knobs alone."""

import sys

from pyinfra import host, inventory

from operations.plan.monitoring import RULES, scrape_config, targets
from operations.plan.wanted import wanted
from operations.verbs.report import refusals_told

if host == next(iter(inventory)):
    with refusals_told():
        knobs, _ = wanted(dict(host.data.dict()))
    if knobs.monitoring == "off":
        off = 'nothing is exported: set monitoring = "metrics" in group_data/all.py, and deploy'
        print(f"note: {off}", file=sys.stderr)
    else:
        print(scrape_config(targets(knobs, [each.name for each in inventory])), end="")
        print(f"# The alarms that come with Tandem, for rule_files: {RULES}")
