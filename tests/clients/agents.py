"""Agents at work: Claude Code, Codex, opencode and aider, each in an empty folder, as their users start them."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.clients import installed
from tests.clients.whole_door import KEY, WholeDoor

ANSWER, MADE = "The answer is 42.", "made by a tool\n"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SEEN = f"A picture of {len(PNG)} bytes."
#: Seconds for an agent to do its work on a machine with much else to do (aider alone computes for ten before it asks),
#: to end when it is told to, and for an engine to know that its client has gone: half of the answer's own time.
WORK_S, ENDS_S, GONE_S = 900, 3, 30


@dataclass
class Place:
    """Where an agent works: its home, and a folder with a picture in it. `is_hurried`: it bears little silence. Else it
    has the patience that it comes with: where a machine has much else to do, each piece of an answer may be late.
    """

    home: Path
    work: Path
    door: str
    is_hurried: bool = False

    def __post_init__(self) -> None:
        for folder in (self.home, self.work):
            folder.mkdir(parents=True)
        (self.work / "picture.png").write_bytes(PNG)
        subprocess.run(["git", "init", "--quiet", str(self.work)], check=True)


@dataclass(frozen=True)
class Agent:
    """`start`: what runs it in a place for a question and whether that is about a picture, with its environment and its
    input. `call`: the question by which it makes `made.txt`. `path`: the protocol that it speaks. `silent`: a question
    whose answer is silent for longer than it is told to bear.
    """

    name: str
    start: Callable[[Place, str, bool], tuple[list[str], dict[str, str], str]]
    call: Callable[[Place], str]
    path: str
    silent: str


def _claude(place: Place, question: str, picture: bool) -> tuple[list[str], dict[str, str], str]:
    environment = {"ANTHROPIC_BASE_URL": place.door, "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": "double"}
    environment |= {"ANTHROPIC_DEFAULT_HAIKU_MODEL": "double", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    if place.is_hurried:
        # Less it does not take.
        environment |= {"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "10000"}
    if picture:
        question = _call("Read", file_path=str(place.work / "picture.png"))
    return [installed.node("claude"), "-p", question, "--permission-mode", "acceptEdits"], environment, ""


def _codex(place: Place, question: str, picture: bool) -> tuple[list[str], dict[str, str], str]:
    settings = {"model": "double", "model_provider": "tandem", "model_providers.tandem.name": "Tandem"}
    settings |= {"model_providers.tandem.base_url": f"{place.door}/v1", "model_providers.tandem.env_key": "TANDEM_KEY"}
    given = [each for name, value in settings.items() for each in ("-c", f'{name}="{value}"')]
    if place.is_hurried:
        given += ["-c", "model_providers.tandem.stream_idle_timeout_ms=5000"]
    shown = ["-i", str(place.work / "picture.png")] if picture else []
    argv = [installed.node("codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return [*argv, *given, *shown, "--", question], {"TANDEM_KEY": KEY}, ""


def _opencode(place: Place, question: str, picture: bool) -> tuple[list[str], dict[str, str], str]:
    sees = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    model = {"name": "double", "limit": {"context": 131072, "output": 8192}, **sees}
    options = {"baseURL": f"{place.door}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"double": model}}
    settings = {"model": "tandem/double", "small_model": "tandem/double", "provider": {"tandem": provider}}
    (place.work / "opencode.json").write_text(json.dumps({**settings, "autoupdate": False, "share": "disabled"}))
    shown = ["-f", str(place.work / "picture.png")] if picture else []
    # As an argument it is put into quotes.
    return [installed.node("opencode"), "run", *shown], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}, question


def _aider(place: Place, question: str, picture: bool) -> tuple[list[str], dict[str, str], str]:
    known = {"max_input_tokens": 131072, "max_output_tokens": 8192, "supports_vision": True}
    about = place.work / "models.json"
    about.write_text(json.dumps({"openai/double": {**known, "litellm_provider": "openai", "mode": "chat"}}))
    environment = {"OPENAI_API_BASE": f"{place.door}/v1", "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    argv = [installed.python("aider-chat", "aider"), "--model", "openai/double", "--model-metadata-file", str(about)]
    argv += ["--edit-format", "whole", "--yes-always", "--no-git", "--analytics-disable"]
    argv += ["--timeout", "5"] if place.is_hurried else []
    argv += ["--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--message", question]
    return [*argv, "picture.png" if picture else "made.txt"], environment, ""


def _call(tool: str, **arguments: str) -> str:
    return f"CALL {tool} {json.dumps(arguments)} END"


AGENTS = (
    Agent(
        "@anthropic-ai/claude-code",
        _claude,
        lambda place: _call("Write", file_path=str(place.work / "made.txt"), content=MADE),
        "/v1/messages",
        "SILENT 14",
    ),
    Agent(
        "@openai/codex",
        _codex,
        lambda place: _call("exec_command", cmd="printf 'made by a tool\\n' > made.txt"),
        "/v1/responses",
        "SILENT 9",
    ),
    Agent(
        "opencode-ai",
        _opencode,
        lambda place: _call("write", filePath=str(place.work / "made.txt"), content=MADE),
        "/v1/chat/completions",
        "SILENT 9",
    ),
    # It has no tools: edits are a form of its text.
    Agent(
        "aider-chat",
        _aider,
        lambda place: f"SAY\nmade.txt\n```\n{MADE}```\nEND",
        "/v1/chat/completions",
        "SILENT 9",
    ),
)


def tried(agent: Agent, door: WholeDoor, folder: Path) -> Iterator[tuple[str, str]]:
    """Each task and what is wrong; empty: it works."""

    def ready(task: str, is_hurried: bool = False) -> Place:
        return Place(folder / task / "home", folder / task / "work", door.url, is_hurried)

    yield "answer", _says(agent, ready("answer"), "Hi", ANSWER)
    streamed = door.engines[0].says("/asked").get(agent.path, {}).get("stream")
    yield "stream", "" if streamed else "it asks for no stream"
    place = ready("tool")
    said = _says(agent, place, agent.call(place), "")
    made = place.work / "made.txt"
    yield "tool", "" if made.exists() and made.read_text() == MADE else said or "no file was made"
    yield "picture", _says(agent, ready("picture"), "What is it?", SEEN, True)
    yield "interrupt", _interrupted(agent, ready("interrupt"), door)
    yield "silence", _says(agent, ready("silence", is_hurried=True), agent.silent, ANSWER)


def _run(agent: Agent, place: Place, question: str, picture: bool = False) -> subprocess.Popen[str]:
    argv, more, given = agent.start(place, question, picture)
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    environment |= {"HOME": str(place.home), **more}
    asked = place.home / "asked"
    asked.write_text(given)
    with asked.open() as file:
        return subprocess.Popen(
            argv,
            cwd=place.work,
            env=environment,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def _says(agent: Agent, place: Place, question: str, wanted: str, picture: bool = False) -> str:
    process = _run(agent, place, question, picture)
    try:
        said, _ = process.communicate(timeout=WORK_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return f"nothing after {WORK_S} s: {_last(said)}"
    return "" if wanted in said and process.returncode == 0 else _last(said) or f"it ended with {process.returncode}"


def _last(said: str) -> str:
    """The last line with a word in it."""
    return next((line.strip()[:300] for line in reversed(said.splitlines()) if any(map(str.isalpha, line))), "")


def _interrupted(agent: Agent, place: Place, door: WholeDoor) -> str:
    process = _run(agent, place, "PIECES 1200")
    try:
        if not _until(WORK_S, lambda: door.under_way() > 0):
            return "it asked nothing"
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        if not _until(ENDS_S, lambda: process.poll() is not None):
            # As a terminal that is closed.
            os.killpg(process.pid, signal.SIGKILL)
        gone = _until(GONE_S, lambda: door.under_way() == 0)
        return "" if gone else f"the engine still works for it after {GONE_S} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _until(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
