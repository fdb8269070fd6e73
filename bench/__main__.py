"""`tandem bench`: what is measured, how, and every knob: docs/bench.md."""

from __future__ import annotations

import os
import resource
import signal
import sys
from types import FrameType

from bench import request, resuming
from bench.running import Runner
from bench.session import Ended
from bench.show import Show
from bench.summary import summary
from operations.plan.config.refusal import Refusal

FAILED, NOT_UNDERSTOOD = 1, 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


#: Open files: a connection of each user, here and in ssh, and what a process has besides. macOS begins with 256, Linux
#: with 1,024; macOS takes 10,240 at most.
_FILES = 9_000


class Interrupted(BaseException):
    """Somebody wants this to end."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(signal.Signals(number).name)


def _open_more() -> None:
    """Lets this process, and those that it starts, open as many files as many users want, where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def main() -> int:
    """0: everything was measured. 1: it can't be, in one line. 2: a word was not understood. 3: no node answers. 130:
    broken off, and goes on when it is run again.
    """
    try:
        wanted = request.read(os.environ)
        folder = resuming.find(wanted)
    except Refusal as refusal:
        return _told(refusal, NOT_UNDERSTOOD)
    _open_more()
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    code = 0
    with Show(max(len(wanted.topologies), 1)) as show:
        runner = Runner(wanted, folder, show)
        try:
            runner.go()
        except Ended as ended:
            # Where nothing of it is measured, how the nodes were asked is how this ends.
            code = _told(ended, ended.code if not folder.run.exists() else FAILED)
        except Refusal as refusal:
            code = _told(refusal)
        except Interrupted as interrupted:
            show.say(f"broken off ({interrupted}); run the same again: it goes on where it was")
            code = 130
        finally:
            # What is put back is put back, however often somebody asks for an end.
            for number in _SIGNALS:
                signal.signal(number, lambda *_: show.say("first what is declared is put back"))
            if runner.put_back():
                code = code or 1
        if code == 0:
            runner.tell_pages()
        if folder.run.exists():
            try:
                summary(folder, show)
            except Refusal as refusal:
                code = _told(refusal)
    return code


def _told(refusal: Refusal, code: int = FAILED) -> int:
    for finding in refusal.findings:
        print(f"bench: {finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
