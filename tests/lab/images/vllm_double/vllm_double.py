#!/usr/bin/python3
"""A double of vLLM: `vllm serve MODEL --host ... --nnodes 2 ...`. Flags that it does not know have no effect.

It answers chats and completions, streamed or whole, and counts them as vLLM does. It has no model. The next token is a
digit that follows from the files of the weights and the text so far, and each rank adds its share of it. So no token
comes without all ranks, and one whose weights are others answers wrongly. An answer that is taken up in its middle goes
on as it would have.

Its ranks are as unkind as NCCL's. Each looks for its RDMA devices by itself, and ranks that have found different numbers
of them wait for ever. When a rank is lost, the others wait without an end, and rank 0 goes on to answer /health. Each
rank listens on all addresses, as vLLM's do for each other: only a firewall shuts that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

#: Seconds of a step, so that a stream lasts; parts that the ranks share; tokens of an answer whose length nobody says.
STEP_S, SHARES, TOKENS = 0.02, 8, 16


def say(text: str) -> None:
    """One line of the log, as vLLM begins them."""
    print(f"INFO {time.strftime('%m-%d %H:%M:%S')} [vllm_double.py] {text}", file=sys.stderr, flush=True)


def load(model: Path) -> str:
    """The hash of a model's weights. Raises SystemExit where it has none."""
    say(f"Starting to load model {model}...")
    start, content, size = time.monotonic(), hashlib.sha256(), 0
    for each in sorted(model.glob("*.safetensors")):
        content.update(each.read_bytes())
        size += each.stat().st_size
    if not size:
        raise SystemExit(f"ValueError: no weights in {model}")
    took = time.monotonic() - start
    say(f"Loading weights took {took:.2f} seconds")
    say(f"Model loading took {size / 2**30:.2f} GiB memory and {took:.2f} seconds")
    return content.hexdigest()


def share(weights: str, text: str, rank: int, ranks: int) -> int:
    """A rank's part of the sum whose last digit is the next token."""
    parts = (hashlib.sha256(f"{weights} {part} {text}".encode()).digest()[0] for part in range(rank, SHARES, ranks))
    return sum(parts)


def network() -> int:
    """How many RDMA devices NCCL would use here; 0: sockets. Tokens go by sockets in any case. Where NCCL_IB_HCA is not
    set, as in a plan without a GPU, the devices are those of meeting.json.
    """
    told = os.environ
    planned = ",".join(each["device"] for each in json.loads(Path("/tandem/meeting.json").read_text())["rdma"])
    wanted = told.get("NCCL_IB_HCA", planned).removeprefix("=").split(",")
    by_sockets = told.get("NCCL_IB_DISABLE") == "1" or told.get("NCCL_NET") == "Socket"
    found = [] if by_sockets else [each for each in wanted if each and is_found(each)]
    say(f"NET/IB : Using {' '.join(f'[{number}]{each}:1/RoCE' for number, each in enumerate(found)) or 'no device'}")
    say(f"Using network {'IB' if found else 'Socket'}")
    return len(found)


def is_found(device: str) -> bool:
    """As NCCL finds one, by libibverbs: its port is active, and the container may open it."""
    opened = [each.parent.name for each in Path("/sys/class/infiniband_verbs").glob("*/ibdev") if _is(each, device)]
    states = [each.read_text() for each in Path("/sys/class/infiniband").glob(f"{device}/ports/*/state")]
    can_be_opened = any(Path(f"/dev/infiniband/{each}").exists() for each in opened)
    return can_be_opened and any(each.startswith("4: ACTIVE") for each in states)


def _is(ibdev: Path, device: str) -> bool:
    return ibdev.read_text().strip() == device


class Ranks:
    """All ranks, as the first one has them."""

    def __init__(self, asked: argparse.Namespace, weights: str) -> None:
        self.weights, self.count, self.lock = weights, asked.nnodes, threading.Lock()
        self.others = []
        if self.count == 1:
            return
        own = network()
        with socket.create_server((asked.master_addr, asked.master_port)) as listener:
            while len(self.others) < self.count - 1:
                other = listener.accept()[0].makefile("rwb")
                if (its := json.loads(other.readline())) != own:
                    say(f"a rank has {its} RDMA devices, and this one {own}: it waits")
                    threading.Event().wait()
                self.others.append(other)
        say(f"world_size={self.count} rank=0: all ranks are there")

    def step(self, text: str) -> str:
        """The next token: a digit. Comes back only when every rank has said its share."""
        with self.lock:
            total = share(self.weights, text, 0, self.count)
            for other in self.others:
                try:
                    other.write(json.dumps(text).encode() + b"\n")
                    other.flush()
                    said = other.readline()
                except OSError:
                    said = b""
                if not said:
                    say("a rank is lost, and this one waits for it")
                    threading.Event().wait()
                total += int(said)
        time.sleep(STEP_S)
        return str(total % 10)


def follow(asked: argparse.Namespace, weights: str) -> None:
    """Life of a rank but the first: it adds its share to each step."""
    while True:
        try:
            connection = socket.create_connection((asked.master_addr, asked.master_port), timeout=5)
            break
        except OSError:
            time.sleep(0.5)
    connection.settimeout(None)
    say(f"world_size={asked.nnodes} rank={asked.node_rank}: joined")
    with connection.makefile("rwb") as first:
        first.write(json.dumps(network()).encode() + b"\n")
        first.flush()
        for line in first:
            first.write(b"%d\n" % share(weights, json.loads(line), asked.node_rank, asked.nnodes))
            first.flush()
    say("the first rank is lost, and this one waits for it")
    threading.Event().wait()


class Metrics:
    """vLLM's counters and gauges."""

    def __init__(self, model: str) -> None:
        self.model, self.lock = model, threading.Lock()
        names = ("prompt_tokens", "generation_tokens", "request_success")
        self.counted = Counter({f"{name}_total": 0 for name in names} | {"iteration_tokens_total_count": 0})
        self.running = self.held = 0

    def begin(self, prompt: int) -> None:
        """A request with a prompt of so many tokens."""
        with self.lock:
            self.running += 1
            self.counted["prompt_tokens_total"] += prompt

    def token(self) -> None:
        """One of an answer."""
        with self.lock:
            self.held += 1
            self.counted["generation_tokens_total"] += 1
            self.counted["iteration_tokens_total_count"] += 1

    def end(self, tokens: int, *, is_whole: bool) -> None:
        """A request ends after so many tokens of an answer."""
        with self.lock:
            self.running -= 1
            self.held -= tokens
            self.counted["request_success_total"] += is_whole

    def text(self) -> str:
        """As Prometheus reads it."""
        with self.lock:
            gauges = {"num_requests_running": self.running, "num_requests_waiting": 0}
            gauges["kv_cache_usage_perc"] = min(1.0, self.held / 1000)
            counters = dict(self.counted)
        labels = f'{{engine="0",model_name="{self.model}"}}'
        lines = [f"# TYPE vllm:{name} gauge\nvllm:{name}{labels} {float(value)}" for name, value in gauges.items()]
        for name, value in counters.items():
            own = labels[:-1] + ',finished_reason="length"}' if name == "request_success_total" else labels
            lines.append(f"# TYPE vllm:{name} counter\nvllm:{name}{own} {float(value)}")
        return "\n".join(lines) + "\n"


def prompt_of(body: dict[str, Any]) -> str:
    """The text that a request is to be continued from. Raises ValueError, KeyError or TypeError."""
    if "messages" not in body:
        return str(body["prompt"])
    texts = []
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        texts.append(f"<|{message['role']}|>{content or ''}")
    # An answer that is taken up is the last one, and is not at its end.
    if body.get("continue_final_message"):
        return "</s>".join(texts)
    return "</s>".join([*texts, "<|assistant|>"])


def tokens_of(body: dict[str, Any]) -> int:
    """How long the answer shall be. Raises ValueError."""
    wanted = body.get("max_completion_tokens") or body.get("max_tokens") or TOKENS
    if not isinstance(wanted, int) or wanted < 1:
        raise ValueError(f"max_tokens must be at least 1, got {wanted}.")
    return wanted


class Api(BaseHTTPRequestHandler):
    """One client of the server."""

    protocol_version = "HTTP/1.1"
    ranks: Ranks
    metrics: Metrics
    served: str

    def do_GET(self) -> None:
        """/health, /metrics, /version and /v1/models."""
        if self.path in ("/health", "/ping"):
            self.reply(200, b"", "text/plain")
        elif self.path == "/metrics":
            self.reply(200, self.metrics.text().encode(), "text/plain; version=0.0.4")
        elif self.path == "/version":
            self.tell(200, {"version": "0.32.0+double"})
        elif self.path == "/v1/models":
            card = {"id": self.served, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 131072}
            self.tell(200, {"object": "list", "data": [card]})
        else:
            self.tell(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """A chat or a completion."""
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            return self.tell(404, {"detail": "Not Found"})
        try:
            body = json.loads(content)
            prompt, wanted = prompt_of(body), tokens_of(body)
        except (ValueError, KeyError, TypeError) as error:
            fault = {"message": str(error), "type": "BadRequestError", "param": None, "code": 400}
            return self.tell(400, {"error": fault})
        if body.get("model", self.served) != self.served:
            fault = {"message": f"The model `{body['model']}` does not exist.", "type": "NotFoundError", "code": 404}
            return self.tell(404, {"error": fault})
        answer, is_whole = "", False
        self.metrics.begin(len(prompt.split()))
        try:
            told = Told(self, body, prompt, wanted)
            while len(answer) < wanted:
                answer += self.ranks.step(prompt + answer)
                self.metrics.token()
                told.token(answer)
            told.end(answer)
            is_whole = True
        except OSError:
            # The client has gone, and its request goes with it.
            self.close_connection = True
        finally:
            self.metrics.end(len(answer), is_whole=is_whole)
        return None

    def tell(self, status: int, value: object) -> None:
        """JSON."""
        self.reply(status, json.dumps(value).encode(), "application/json")

    def reply(self, status: int, body: bytes, kind: str) -> None:
        """A whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""


class Told:
    """How an answer goes to its client: token by token, or at once."""

    def __init__(self, api: Api, body: dict[str, Any], prompt: str, wanted: int) -> None:
        self.api, self.wanted = api, wanted
        self.is_chat, self.is_stream = "messages" in body, bool(body.get("stream"))
        self.counts = bool((body.get("stream_options") or {}).get("include_usage"))
        prompt_tokens = len(prompt.split())
        self.usage = {"prompt_tokens": prompt_tokens, "completion_tokens": wanted}
        self.usage["total_tokens"] = prompt_tokens + wanted
        kind = "chat.completion" if self.is_chat else "text_completion"
        self.head = {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": f"{kind}.chunk" if self.is_chat and self.is_stream else kind,
            "created": int(time.time()),
            "model": api.served,
        }
        if not self.is_stream:
            return
        api.send_response(200)
        api.send_header("Content-Type", "text/event-stream; charset=utf-8")
        api.send_header("Transfer-Encoding", "chunked")
        api.end_headers()
        if self.is_chat:
            self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def token(self, answer: str) -> None:
        """One more has come."""
        if self.is_stream:
            piece = {"delta": {"content": answer[-1]}} if self.is_chat else {"text": answer[-1]}
            reason = "length" if len(answer) == self.wanted else None
            self._event([{"index": 0, **piece, "finish_reason": reason}])

    def end(self, answer: str) -> None:
        """It is whole."""
        if not self.is_stream:
            words = {"message": {"role": "assistant", "content": answer}} if self.is_chat else {"text": answer}
            choices = [{"index": 0, **words, "finish_reason": "length"}]
            self.api.tell(200, {**self.head, "choices": choices, "usage": self.usage})
            return
        if self.counts:
            self._event([], usage=self.usage)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, choices: list[dict[str, Any]], **more: object) -> None:
        said = {**self.head, "choices": choices, **more}
        self._chunk(b"data: " + json.dumps(said).encode() + b"\n\n")

    def _chunk(self, content: bytes) -> None:
        self.api.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))


class Server(ThreadingHTTPServer):
    """Its threads end with it."""

    daemon_threads = True
    request_queue_size = 128


def main(argv: list[str]) -> None:
    """`serve`, with vLLM's flags; those that say nothing here are taken as well."""
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("serve", choices=["serve"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--master-addr", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, default=29501)
    asked, _ = parser.parse_known_args(argv)
    # Nobody calls; it is there to be found.
    heard = socket.create_server(("", 0))
    say(f"listens on all addresses, port {heard.getsockname()[1]}")
    weights = load(asked.model)
    if asked.node_rank:
        follow(asked, weights)
    ranks = Ranks(asked, weights)
    Api.ranks, Api.metrics, Api.served = ranks, Metrics(asked.served_model_name), asked.served_model_name
    server = Server((asked.host, asked.port), Api)
    say("Application startup complete.")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
