"""What is shown of a run that the command `tandem` has started: phases in which something happens, and no banners."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

import click
from pyinfra import logger
from pyinfra.context import ctx_state

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PHASE = "--> Starting operation: "
#: What a node says of an operation that has done nothing.
_IDLE = re.compile(r"\s*(\[.*?\] +)?(No changes|Skipped|Connected|Ready: |Loading: )")
#: A row of the table of operations in which no node has anything.
_EMPTY = re.compile(r"\s*\S.*\s{2,}-\s{2,}-\s*$")
#: What pyinfra says behind each dry run.
_REMARK = "Detected changes may not include every change"
_FAULT = re.compile(r"--> [^:]*error[^:]*: ")
_BAR = 20


def install() -> None:
    """From now on pyinfra's log is told so."""
    logger.addFilter(_Shown().filter)
    echo = click.echo

    def without_remark(message: object = None, **how: Any) -> None:
        if _REMARK not in str(message):
            echo(message, **how)

    click.echo = without_remark


class _Shown:
    """Drops lines that say nothing; a phase is named when something is said in it."""

    def __init__(self) -> None:
        self._phase, self._begun, self._is_over = "", 0, False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is shown; on a terminal a bar stands under those that were."""
        text = _STYLE.sub("", str(record.getMessage()))
        if text.startswith(_PHASE):
            self._phase, self._begun = text.removeprefix(_PHASE).strip(), self._begun + 1
            self._draw()
            return False
        if text.startswith("--> ") and record.levelno < logging.WARNING:
            self._is_over = self._is_over or text.startswith("--> Results")
            self._wipe()
            return False
        if record.levelno < logging.WARNING and (self._is_over or _IDLE.match(text) or _EMPTY.match(text)):
            return False
        self._wipe()
        if self._phase:
            print(self._phase, file=sys.stderr)
            self._phase = ""
        said = _FAULT.sub("", str(record.getMessage()))
        record.msg, record.args = said.replace("Success", "done"), ()
        return True

    def _draw(self) -> None:
        count = len(ctx_state.get().get_op_order()) if ctx_state.isset() else 0
        if count and sys.stderr.isatty():
            full = _BAR * self._begun // count
            bar = "█" * full + "░" * (_BAR - full)
            sys.stderr.write(f"\r\x1b[K{bar} {self._begun}/{count} {self._phase}"[:78])
            sys.stderr.flush()

    def _wipe(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
