"""`make check`: everything that a deploy checks before its first change, and the recipe against the image."""

from pyinfra import host, inventory

from operations import judging, preflight
from operations.verbs.report import say

plan = preflight.settle()
if host.name == next(iter(inventory)).name:
    say(judging.checked(host, plan))
