"""`make keys`: keys of clients, what they may, and what they have used of all proxies. The head has to answer."""

from pyinfra import host, inventory

from operations import reach
from operations.verbs.key_words import DEADLINE_S, added_up, key_table
from operations.verbs.report import absent_lines, everywhere, say, the_head

if reach.speaks(host, inventory):
    head = the_head()
    hosts = [*head, *(each for each in reach.answering(inventory) if each not in head)]
    names = {each.name: {"where": each.name} for each in hosts}
    key_table(added_up(everywhere(hosts, "keys", deadline_s=DEADLINE_S, of_node=names)))
    say(absent_lines())
