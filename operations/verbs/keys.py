"""`tandem keys`: keys of clients, what they may, and what they have used of all proxies. The head has to answer."""

from pyinfra import host

from operations.node.door import keys as node_keys
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.key_words import DEADLINE_S, added_up, key_table
from operations.verbs.report import absent_lines, everywhere, say, say_json, the_head, wants_json
from operations.wire.keys import KeysTold

run = this_run()
if run.speaks(host):
    head, *_ = the_head(run)
    answers: dict[str, KeysTold] = everywhere(
        run, run.answering, lambda each: ask_or_none(each, node_keys.main, where=each.name), DEADLINE_S
    )
    # It may have fallen silent.
    the_head(run)
    rows, lines = added_up(answers.pop(head.name), answers)
    if wants_json():
        say_json(keys=rows, remarks=lines, absent=absent_lines(run))
    else:
        key_table(rows)
        say([*lines, *absent_lines(run)])
