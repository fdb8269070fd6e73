"""`tandem alarm-test`: a test alarm through the head's Alertmanager, to all whom alarms are sent to.

Ends with 1 where one of them could not be told.
"""

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from operations.node.monitoring import alarm_test
from operations.plan.wanted import wanted
from operations.runner.remote import ask_or_none
from operations.runner.run import this_run
from operations.verbs.report import everywhere, refusals_told, say, the_head
from operations.wire.unit import AlarmTold

#: Seconds for the alarm to reach everybody, and for the head to say so.
TOLD_S, DEADLINE_S = 30, 75

run = this_run()
if run.speaks(host):
    with refusals_told():
        declared = wanted(dict(host.data.dict()))
    if not declared.knobs.runs_prometheus:
        raise DeployError('nothing sends alarms: monitoring = "prometheus" in group_data/all.py, and `tandem apply`')
    nobody = "nobody is told of alarms: name somebody in `alarms` (group_data/all.py), and `tandem apply`"
    if not declared.knobs.alarms:
        raise DeployError(nobody)
    head = the_head(run)
    name, model = head[0].name, declared.first.recipe.served_name
    answers: dict[str, AlarmTold] = everywhere(
        run, head, lambda host: ask_or_none(host, alarm_test.main, name, model, TOLD_S), DEADLINE_S
    )
    (answer,) = answers.values()
    if "problem" in answer:
        raise DeployError(f"{answer['problem']}: `tandem status` says why, `tandem apply` deploys it")
    if not answer["receivers"]:
        raise DeployError(nobody)
    say([f"{each['kind']}: {each['to']}" for each in answer["receivers"]])
    if short := answer["failed"] or answer["waits"]:
        counted = ", ".join(f"{count} by {kind}" for kind, count in short.items())
        failed = "could not be told" if answer["failed"] else f"not told within {TOLD_S} s"
        why = answer["why"] or "no word of why in `sudo journalctl -u tandem-alertmanager` on the head"
        raise DeployError(f"of these {failed}: {counted}; Alertmanager's last word: {why}")
    say(["each of them has taken the test alarm; that it is over is sent within half a minute"])
