"""What is shown of a run that the command `tandem` has started: phases in which something happens, and no banners."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import click
from pyinfra import logger
from pyinfra.context import ctx_state
from pyinfra_cli.exceptions import UnexpectedExternalError, UnexpectedInternalError

from operations.plan.wanted import unread
from operations.runner.given import NOT_UNDERSTOOD

#: Tandem's own files, and those among them that an owner edits.
_OURS, _OWNERS = Path(__file__).parents[2].resolve(), ("inventory.py", "all.py")

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
    for kind in (UnexpectedExternalError, UnexpectedInternalError):
        kind.show = partialmethod(_show_fault, kind.show)
        kind.exit_code = property(lambda fault: NOT_UNDERSTOOD if _owners_file(fault) else 1)
    echo = click.echo

    def without_remark(message: object = None, **how: Any) -> None:
        if _REMARK not in str(message):
            echo(message, **how)

    click.echo = without_remark  # type: ignore[assignment]


def _show_fault(fault: Any, otherwise: Callable[..., None], file: Any = None) -> None:
    """A file of the owner's that Python can't read is told in a line; a fault of Tandem's own with its traceback."""
    if place := _owners_file(fault):
        found = unread(fault.exception, place)
        logger.error(f"{found.where}: {found.problem}; {found.remedy}")
    else:
        otherwise(fault, file)


def _owners_file(fault: Any) -> str:
    """The file of the owner's that a fault is in; empty: it is in Tandem's."""
    error = fault.exception
    place = str(error.filename if isinstance(error, SyntaxError) else getattr(fault, "filename", ""))
    is_ours = Path(place).resolve().is_relative_to(_OURS) and Path(place).name not in _OWNERS
    return "" if is_ours else place


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
