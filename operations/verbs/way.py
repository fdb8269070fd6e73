"""`tandem chat` and `tandem open`: the endpoint of the first node that has one, and how ssh reaches that node."""

import json

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.node.door import endpoint
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.runner.tether import can_tether
from operations.verbs.report import everywhere, say

#: What leads to a node, of the connector's data.
_SSH = ("hostname", "port", "user", "key", "password", "config_file", "known_hosts_file", "strict_host_key_checking")

run = this_run()
if run.speaks(host):
    answers = everywhere(run, run.answering, lambda each: ask_or_none(each, endpoint.main), 60)
    name = next((name for name, answer in answers.items() if answer.get("url")), "")
    if not name:
        raise DeployError("no proxy runs on a node that answers: `tandem apply` deploys them")
    node = run.node(name)
    data = {each: node.data.get(f"ssh_{each}") for each in _SSH}
    ssh = {**data, "hostname": data["hostname"] or name, "password": bool(data["password"])}
    say([json.dumps({"node": name, "endpoint": answers[name], "ssh": ssh if can_tether(node) else None})])
