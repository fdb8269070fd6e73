"""What the log must not say: LiteLLM writes errors with all their words, and an engine that refuses quotes the prompt.

So a warning or an error is told by its place and by the kinds of its exceptions. What LiteLLM says before the door is
there, of its configuration, is said in full.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

#: How uvicorn begins lines that have a path with its query in them, where people put keys, and a mistake of its own.
_NOT_SAID = ('%s - "WebSocket', "connection rejected", "ASGI callable returned without completing handshake")


def install() -> None:
    """From now on, for every logger of this process."""
    make = logging.getLogRecordFactory()

    def quiet(
        name: str, level: int, path: str, line: int, msg: Any, args: Any, exc_info: Any, *more: Any, **named: Any
    ) -> logging.LogRecord:
        if level >= logging.WARNING:
            error = exc_info[1] if isinstance(exc_info, tuple) else sys.exc_info()[1]
            msg, args, exc_info = kinds(error) or "a warning", (), None
        return make(name, level, path, line, msg, args, exc_info, *more, **named)

    logging.setLogRecordFactory(quiet)
    # The door says who asked.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.error").addFilter(lambda record: not str(record.msg).startswith(_NOT_SAID))


def kinds(error: BaseException | None) -> str:
    """An error, and what it came from."""
    found: list[str] = []
    while error is not None and len(found) < 5:
        found.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    return " from ".join(found)
