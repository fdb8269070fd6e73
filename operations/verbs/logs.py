"""`tandem logs`: what the journal of an engine says, on every node that has it; with `_follow` it goes on."""

import shlex

from pyinfra import host, logger
from pyinfra.api.command import StringCommand

from operations.plan.cluster.served_model import unit_of
from operations.plan.declared import chosen
from operations.plan.wanted import wanted
from operations.runner.run import this_run
from operations.runner.tether import can_tether
from operations.verbs.report import refusals_told, say

run = this_run()
with refusals_told():
    models = chosen(wanted(dict(host.data.dict())), host.data.get("_model"))
units = [word for model in models for word in ("--unit", unit_of(model.name))]
command = ["journalctl", "--no-hostname", "--output", "short-iso", *units]
command += ["--lines", str(int(host.data.get("_lines") or 100))]
if host.data.get("_follow") and can_tether(host):
    channel = host.connector.client.get_transport().open_session()  # type: ignore[attr-defined]
    # It ends with its terminal, and so with this run.
    channel.get_pty()
    channel.exec_command(shlex.join(["sudo", "-n", *command, "--follow"]))
    for line in channel.makefile("r"):
        say([f"{host.name} {line.rstrip()}"])
else:
    done, output = host.run_shell_command(StringCommand(shlex.join(command)), _sudo=True)
    say([f"{host.name} {line}" for line in output.stdout_lines])
    if not done:
        logger.error(f"{host.name}: {' / '.join(output.stderr_lines)}")
