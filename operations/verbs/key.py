"""`tandem key alice [--expires 30d] [--requests 4] [--tokens 20000]`: a key for a client, printed once.

It is made here; what goes to the nodes is its hash.
"""

import hashlib
import secrets
import sys

from pyinfra import host

from operations.plan.config.refusal import Refusal
from operations.plan.services.proxy_keys import wish
from operations.runner.run import this_run
from operations.verbs.key_words import given, made_line, make_on_head, refused, tell_others
from operations.verbs.report import say

run = this_run()
if run.speaks(host):
    try:
        wanted = wish(given("NAME"), given("EXPIRES"), given("REQUESTS"), given("TOKENS"))
    except Refusal as refusal:
        raise refused(refusal) from None
    key = f"sk-{secrets.token_urlsafe(32)}"
    answer = make_on_head(run, {**wanted, "hash": hashlib.sha256(key.encode()).hexdigest()})
    made = answer["made"]
    for line in tell_others(run, answer["text"], answer["alone"]).missed:
        print(f"note: {line}: its proxy takes the key from the next `tandem apply` on", file=sys.stderr)
    # To a script the key alone: KEY=$(tandem key alice).
    say([key, *([made_line(wanted["name"], made)] if sys.stdout.isatty() else [])])
