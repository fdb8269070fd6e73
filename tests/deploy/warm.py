"""pyinfra with its imports behind it. Most of a deploy of fake nodes is imports, so one process does them, and each run
is a fork of it: a fork has run nothing yet. It is pyinfra's own command all the same, with a process of its own.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from tempfile import TemporaryDirectory

from tests.plan.samples import ROOT, plan

_started: list[subprocess.Popen[str]] = []


def pyinfra(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`pyinfra` with these arguments, in the tree's root and this process's environment."""
    if not _started:
        argv = [sys.executable, "-m", __name__]
        _started.append(
            subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1)
        )
    server, environment = _started[0], {**os.environ, "PYINFRA_PROGRESS": "off"}
    assert server.stdin and server.stdout
    with TemporaryDirectory() as folder:
        written = [f"{folder}/{name}" for name in ("stdout", "stderr")]
        print(json.dumps([arguments, environment, written]), file=server.stdin)
        code = json.loads(server.stdout.readline())
        said = []
        for path in written:
            with open(path, encoding="utf-8") as file:
                said.append(file.read())
    return subprocess.CompletedProcess(arguments, code, *said)


def _serve() -> Sequence[str] | None:
    """Fork for each line of standard input. Returns a run's arguments in its fork, and nothing at the input's end."""
    # Importing it makes all blocking calls gevent's; this process has no loop, and neither has a fork yet.
    import pyinfra_cli.main  # noqa: F401
    from gevent import monkey, reinit

    for room in ("operations.runner", "operations.steps", "bench.advise"):
        for module in iter_modules(import_module(room).__path__):
            if module.name != "__main__":
                import_module(f"{room}.{module.name}")
    # What a process does once: programs packed, templates and patterns compiled, vocabularies and advisories read.
    remote = import_module("operations.runner.remote")
    remote.programs()
    (model,) = plan().models
    recipe_lint = import_module("operations.runner.recipe_lint")
    recipe_lint.judge(model.recipe, model.knobs, {}, 1)
    recipe_lint.known_holes(model.recipe, model.knobs, {})
    fork, wait = (monkey.get_original("os", name) for name in ("fork", "waitpid"))
    while line := sys.stdin.readline():
        arguments, environment, written = json.loads(line)
        if run := fork():
            print(json.dumps(os.waitstatus_to_exitcode(wait(run, 0)[1])), flush=True)
            continue
        reinit()
        for file, path in enumerate((os.devnull, *written)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if file else 0), 0o600), file)
        os.environ.clear()
        os.environ.update(environment)
        return list(arguments)
    return None


if __name__ == "__main__":
    given = _serve()
    if given is not None:
        sys.argv = ["pyinfra", *given]
        runpy.run_module("pyinfra", run_name="__main__", alter_sys=True)
