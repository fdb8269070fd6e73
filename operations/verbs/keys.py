"""`make keys`: keys of clients, what they may, and what they have used of all proxies. The head has to answer."""

from pyinfra import host, inventory

from operations import reach
from operations.shapes.keys import KeysTold
from operations.verbs.key_words import DEADLINE_S, added_up, key_table
from operations.verbs.report import absent_lines, everywhere, say, the_head

if reach.speaks(host, inventory):
    head, *_ = the_head()
    names = {each.name: {"where": each.name} for each in reach.answering(inventory)}
    answers: dict[str, KeysTold] = everywhere(
        reach.answering(inventory), "door.keys", deadline_s=DEADLINE_S, of_node=names
    )
    # It may have fallen silent.
    the_head()
    rows, lines = added_up(answers.pop(head.name), answers)
    key_table(rows)
    say([*lines, *absent_lines()])
