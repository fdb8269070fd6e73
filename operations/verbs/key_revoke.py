"""`tandem key-revoke alice`: the key of a client opens nothing from its next request on, on any node."""

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.plan.config.refusal import Refusal
from operations.plan.services.proxy_keys import named
from operations.runner.run import this_run
from operations.verbs.key_words import ask_head, given, refused, tell_others
from operations.verbs.report import say

run = this_run()
if run.speaks(host):
    try:
        name = named(given("NAME"))
    except Refusal as refusal:
        raise refused(refusal) from None
    answer = ask_head(run, revoke=name)
    told = tell_others(run, answer["text"], answer["alone"])
    # One that only another node has had: it was away when the head's was revoked.
    problems = [answer["problem"]] if "problem" in answer and name not in told.dropped else []
    until = "until the next `tandem apply`, or until this is said again when it answers"
    problems += [f"{line}: its proxy takes the key of `{name}` {until}" for line in told.missed]
    if problems:
        raise DeployError("\n".join(problems))
    say([f"the key of `{name}` opens nothing any more"])
