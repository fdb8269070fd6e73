"""`make key-revoke NAME=alice`: the key of a client opens nothing from its next request on."""

from pyinfra import host, inventory
from pyinfra.api.exceptions import DeployError

from operations import reach
from operations.plan.proxy_keys import named
from operations.plan.refusal import Refusal
from operations.verbs.key_words import ask_head, given, refused, tell_others
from operations.verbs.report import say

if reach.speaks(host, inventory):
    try:
        name = named(given("NAME"))
    except Refusal as refusal:
        raise refused(refusal) from None
    answer = ask_head(revoke=name)
    revoked = answer["revoked"]
    if missed := tell_others({revoked: None}, answer["alone"]):
        until = f"its proxy takes the key of `{revoked}` until the next `make apply`"
        raise DeployError("\n".join(f"{line}: {until}" for line in missed))
    say([f"the key of `{revoked}` opens nothing any more"])
