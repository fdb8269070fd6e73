"""`make key-revoke NAME=alice`: the key of a client opens nothing from its next request on."""

from pyinfra import host, inventory

from operations import reach
from operations.plan.proxy_keys import named
from operations.plan.refusal import Refusal
from operations.verbs.key_words import ask_head, given, refused
from operations.verbs.report import say

if reach.speaks(host, inventory):
    try:
        name = named(given("NAME"))
    except Refusal as refusal:
        raise refused(refusal) from None
    say([f"the key of `{ask_head(revoke=name)['revoked']}` opens nothing any more"])
