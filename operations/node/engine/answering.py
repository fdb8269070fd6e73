"""Sends requests through this node's door, with the owner's key, and tells what came back; it judges nothing.

Standard input is a list of requests (operations/plan/answers makes them).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException, HTTPResponse

from operations.node.door import endpoint
from operations.node.engine.probe import opened
from operations.wire import Json
from operations.wire.answers import Answered, AnsweredAll, Probe

#: Requests under way at once: others use the engine meanwhile.
AT_ONCE = 3
#: Seconds for which an answer may be silent, and that all questions may take.
SILENT_S, ALL_S = 600.0, 900.0
#: By which the door says that a model on demand is not loaded yet (files/litellm/door_answers.py), and seconds after
#: which it is asked again. A load that has failed has another word: its next try may be half an hour away.
_NOT_LOADED, AGAIN_S = '"model_not_loaded"', 5.0
#: Bytes of an answer that are read, and characters of an error that are told.
_MOST, _WORDS = 4 << 20, 400


def main(within_s: float = ALL_S) -> AnsweredAll:
    """`answers` by the requests' names, after so many seconds; or the `problem` for which none was sent."""
    asked: list[Probe] = json.loads(sys.stdin.read())
    door = endpoint.main()
    if not door["url"]:
        return {"problem": "no proxy runs here: `tandem apply` deploys one"}
    return {"answers": send(door["url"], door["key"], asked, within_s)}


def send(url: str, key: str, asked: list[Probe], within_s: float = ALL_S) -> dict[str, Answered]:
    """`url` ends with /v1. After `within_s` seconds none is sent, and what is under way is given up."""
    end = time.monotonic() + within_s

    def one(each: Probe) -> Answered:
        if time.monotonic() >= end:
            return {"status": 0, "text": f"it was not sent: the others took all of {ALL_S:.0f} s"}
        return _answered(f"{url}/{each['path']}", key, each, end)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(one, asked)
        return {each["name"]: answer for each, answer in zip(asked, answers, strict=True)}


def _answered(url: str, key: str, asked: Probe, end: float) -> Answered:
    """The same again as long as the model is loaded for it."""
    while (found := _once(url, key, asked, end))["status"] == 503 and _NOT_LOADED in found.get("text", ""):
        if time.monotonic() + AGAIN_S >= end:
            break
        time.sleep(AGAIN_S)
    return found


def _once(url: str, key: str, asked: Probe, end: float) -> Answered:
    begun = time.monotonic()
    found: Answered
    try:
        with opened(url, asked["body"], key, max(min(SILENT_S, end - begun), 0.1)) as response:
            if asked["body"].get("stream"):
                found = {"status": response.status, **_streamed(response, end)}
            else:
                found = {"status": response.status, "body": json.loads(response.read(_MOST))}
    except urllib.error.HTTPError as error:
        found = {"status": error.code, "text": error.read(_MOST).decode(errors="replace")[:_WORDS]}
    except ValueError as error:
        found = {"status": 200, "text": f"it is no JSON ({error})"[:_WORDS]}
    except (OSError, HTTPException) as error:
        found = {"status": 0, "text": str(getattr(error, "reason", error)) or type(error).__name__}
    found["seconds"] = round(time.monotonic() - begun, 2)
    return found


def _streamed(response: HTTPResponse, end: float) -> Answered:
    """The events of a stream. Raises ValueError for one that is no JSON, OSError when it is late or without an end."""
    last = threading.Timer(max(end - time.monotonic(), 0), _broken_off, [response])
    last.daemon = True
    last.start()
    try:
        found = _events(response)
    finally:
        last.cancel()
    if not found["ended"] and time.monotonic() >= end:
        raise OSError("the stream had no end in time")
    return found


def _broken_off(response: HTTPResponse) -> None:
    """Ends a connection in which another thread waits: closing it would not wake that one."""
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(response.fileno())) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _events(response: HTTPResponse) -> Answered:
    events, size = list[Json](), 0
    for line in response:
        size += len(line)
        if size > _MOST:
            raise OSError(f"the stream has no end after {size} bytes")
        said = line[5:].strip() if line.startswith(b"data:") else b""
        if said == b"[DONE]":
            return {"events": events, "ended": True}
        event = json.loads(said) if said else {}
        if not isinstance(event, dict):
            raise ValueError(f"an event is no object: {said[:40]!r}")
        # A sign of life of the door's is no part of the answer.
        if event and event.get("type") != "ping":
            events.append(event)
    return {"events": events, "ended": False}
