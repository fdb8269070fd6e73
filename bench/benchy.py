"""The real llama-benchy, at the version that the published tables were measured with, as steps of a run.

It writes figures and, asked for them, the moments at which pieces came; from both each request is put together again,
so that the same figures are computed of it as of Tandem's own. What it counts as tokens of an answer are pieces.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.benchy_parts import program, tokenizer
from bench.client.shapes import Json
from bench.figures import figures
from bench.measuring import Measurement, append
from bench.records import Request, Step
from bench.slo import Slo
from bench.steps import Wanted
from operations.plan.config.refusal import Finding, Refusal

#: In the place of a book's URL.
_BOOK = "the-owner-s"


class Benchy:
    """The steps of one setup: all repeats of a number of users are one run of the tool."""

    def __init__(self, measurement: Measurement) -> None:
        self.all = measurement
        self._program = program(measurement.show)
        self._tokenizer = tokenizer(measurement)

    def go(self) -> None:
        """What is not there yet."""
        wanted = [step for step in self.all.all_steps() if step.name not in self.all.done]
        self.all.show.steps(self.all.deployed.setup.name, [step for step in wanted if step.repeat == 0])
        for first in (step for step in wanted if step.repeat == 0):
            repeats = [step for step in wanted if step.cell == first.cell]
            self.all.show.begin(first)
            began = time.time()
            before = self.all.states()
            told = self._run(first, len(repeats))
            after = self.all.states()
            for step, requests in zip(repeats, batches(told, first, len(repeats)), strict=True):
                self._keep(
                    step, requests, began, self.all.record(step, began, _took(requests), len(requests), before, after)
                )

    def _run(self, step: Wanted, runs: int) -> Json:
        folder, name = self.all.folder.path, step.name.replace("/", "-").replace("@", "")
        result, log = folder / f"llama-benchy-{name}.json", folder / f"llama-benchy-{name}.log"
        place = self.all.way.place(step.target, exact=False)
        model = self.all.deployed.recipe.get("model") or {}
        book = self.all.asked.book
        argv = [
            *(str(self._program), "--base-url", place["url"], "--api-key", place["key"] or "EMPTY"),
            *("--model", str(model.get("repo")), "--served-model-name", place["model"]),
            *("--tokenizer", str(self._tokenizer), "--pp", str(step.prompt), "--tg", str(step.answer)),
            *("--concurrency", str(step.users), "--runs", str(runs)),
            # Whether answers are right is asked elsewhere, and not with one question about Paris.
            *("--skip-coherence", "--save-all-throughput-timeseries", "--format", "json", "--save-result", str(result)),
            *(["--book-url", _BOOK] if book else []),
        ]
        host = urlsplit(place["url"]).hostname or ""
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "NO_PROXY": f"{os.environ.get('NO_PROXY', '')},{host}"}
        if book:
            environment["HOME"] = str(_home_with(book, folder))
        result.unlink(missing_ok=True)
        with log.open("w") as words:
            _wait(subprocess.Popen(argv, env=environment, stdout=words, stderr=words, start_new_session=True))
        said = log.read_text(errors="replace")
        if "Falling back to 'gpt2'" in said or not result.exists():
            last = next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
            problem = (
                "it can't read the model's tokenizer" if "gpt2" in said else f"no figures came: {last.strip()[:200]}"
            )
            raise Refusal(Finding("llama-benchy", problem, f"all of its words: {log}"))
        found: Json = json.loads(result.read_text())
        return found

    def _keep(self, step: Wanted, requests: list[Request], began: float, record: Step) -> None:
        with self.all.folder.requests.open("a") as file:
            file.writelines(f"{request.model_dump_json()}\n" for request in requests)
        # Its counters are those of all repeats together: which engine had how many of this one, nobody knows.
        one = record.model_copy(update={"engines": {}})
        append(self.all.folder, one)
        self.all.show.end(step, figures(one, requests, Slo.of(self.all.run.slo)))


def _home_with(book: Path, folder: Path) -> Path:
    """A home in whose cache the tool finds this text as the book that it would have fetched."""
    home = folder / "llama-benchy-home"
    cached = home / ".cache/llama-benchy" / f"{hashlib.md5(_BOOK.encode(), usedforsecurity=False).hexdigest()}.txt"
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_text(book.read_text())
    return home


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def batches(told: Json, first: Wanted, runs: int) -> Iterator[list[Request]]:
    """The requests of each repeat. What the tool leaves out of its lists has failed."""
    [run] = told["benchmarks"]
    series: list[list[list[list[float]]]] = run["requests_throughput_over_time"] or []
    lists = _Values(run)
    for repeat in range(runs):
        step = Wanted(first.setup, first.target, first.users, repeat, first.prompt, first.answer, first.which)
        pieces = series[repeat] if repeat < len(series) else []
        requests = [lists.next(step, number, [moment for moment, _ in each]) for number, each in enumerate(pieces)]
        missing = range(len(requests), first.users)
        failed = "llama-benchy has no answer of it; its log says why"
        yield requests + [
            Request(step=step.name, conversation=number, sent_s=0.0, done_s=0.0, error=failed) for number in missing
        ]


class _Values:
    """The tool's lists: an entry for each request that had one, in the order of its repeats."""

    def __init__(self, run: Json) -> None:
        names = ("e2e_ttft", "est_ppt", "pp_req_throughput", "tg_req_throughput")
        self._lists = {name: iter((run[name] or {"values": []})["values"]) for name in names}

    def next(self, step: Wanted, number: int, moments: list[float]) -> Request:
        """A request that had an answer; `moments` are its pieces', since the first."""
        if not moments:
            error = "no text came"
            return Request(step=step.name, conversation=number, sent_s=0.0, done_s=0.0, error=error)
        first_s = self._value("e2e_ttft") / 1000
        reading_s = self._value("est_ppt") / 1000
        prompt = round(self._value("pp_req_throughput") * reading_s) if reading_s else step.prompt
        tokens = len(moments)
        rate = self._value("tg_req_throughput") if tokens > 1 else 0.0
        return Request(
            step=step.name,
            conversation=number,
            sent_s=0.0,
            first_s=first_s,
            done_s=first_s + ((tokens - 1) / rate if rate else 0.0),
            pieces_s=[first_s + moment for moment in moments],
            prompt_tokens=prompt,
            answer_tokens=tokens,
        )

    def _value(self, name: str) -> float:
        return float(next(self._lists[name], 0.0))


def _took(requests: list[Request]) -> float:
    return max((request.done_s for request in requests), default=0.0)
