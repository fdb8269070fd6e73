"""`make keys`: keys of clients, what they may, and what they have used. It needs the head alone."""

from pyinfra import host, inventory

from operations import reach
from operations.verbs.key_words import ask_head, key_table

if reach.speaks(host, inventory):
    key_table(ask_head()["keys"])
