"""`make status`: what runs on each node, since when, from which image, and whether it answers."""

from pyinfra import host, inventory

from operations.verbs.report import everywhere, status_table

if host.name == next(iter(inventory)).name:
    status_table(everywhere(list(inventory), "status"))
