"""How a node program is named and what it is given, as `operations.runner.remote` sends it; mypy checks the rest."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest

from operations.node.door import keys
from operations.node.network import rails
from operations.node.unit import brief
from operations.runner import remote


def test_a_program_is_called_by_its_module_and_another_function_by_its_name() -> None:
    assert remote.called(keys.main) == "door.keys"
    assert remote.called(rails.apply) == "network.rails:apply"


def test_arguments_are_sent_by_their_names_however_they_were_given() -> None:
    assert remote.named(brief.main, ("tandem-engine",), {"lines": 25}) == {"unit": "tandem-engine", "lines": 25}
    with pytest.raises(TypeError, match="line"):
        remote.named(brief.main, ("tandem-engine",), {"line": 25})


@pytest.mark.parametrize(("program", "arguments"), [("doctor.clock", {}), ("doctor.disk:room", {"places": ["/"]})])
def test_what_is_called_runs_from_what_is_sent(program: str, arguments: dict[str, Any]) -> None:
    argv = shlex.split(remote.command(program, arguments).get_raw_value())
    done = subprocess.run(argv, input=str.__str__(remote.programs()), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
