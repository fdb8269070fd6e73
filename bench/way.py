"""Where the client runs, and under which addresses it finds proxy and engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench.client.shapes import Json, Message, Place
from bench.deployed import Deployed
from bench.process import Client, here, on_head
from bench.ssh import Tunnel, login
from operations.plan.config.refusal import Finding, Refusal

#: Seconds for an answer to be complete: what the proxy gives it (operations/plan/services/proxy.py).
TIMEOUT_S = 900


@dataclass(frozen=True)
class Way:
    """`urls`: target -> base URL with /v1, from where the client is."""

    client: Client
    urls: Mapping[str, str]
    engine: str
    model: str
    key: str = field(repr=False)

    def place(self, target: str, *, exact: bool) -> Place:
        """A target in an order to the client. `exact`: an answer ends with its length alone."""
        extra: Json = {"temperature": 0, **({"ignore_eos": True} if exact else {})}
        return {
            "url": self.urls[target],
            "key": self._key(target),
            "model": self.model,
            "extra": extra,
            "timeout_s": TIMEOUT_S,
        }

    def count(self, prompts: list[list[Message]]) -> list[int]:
        """Tokens of prompts, by an engine's word."""
        url = self.urls[self.engine]
        done = self.client.order("count", prompts=prompts, url=url, key="", model=self.model)
        if "problem" in done:
            raise Refusal(
                Finding(self.engine, f"does not count tokens: {done['problem']}", "`tandem status` says how it is")
            )
        return list(done["counts"])

    def context(self) -> int:
        """Tokens of the shortest context of all targets; 0: not told. Raises Refusal where the model is not served."""
        found = []
        for target, url in self.urls.items():
            told = self.client.order("get", url=f"{url}/models", key=self._key(target))
            if "problem" in told:
                raise Refusal(
                    Finding(target, f"{url} does not answer: {told['problem']}", "`tandem status` says how it is")
                )
            models = {str(each.get("id")): each for each in told["answer"]["data"]}
            if self.model not in models:
                problem = f"{self.model} is not served; there is {', '.join(sorted(models)) or 'nothing'}"
                raise Refusal(Finding(target, problem, "`tandem apply` deploys what is declared"))
            if length := models[self.model].get("max_model_len"):
                found.append(int(length))
        return min(found, default=0)

    def _key(self, target: str) -> str:
        return self.key if target == "proxy" else ""


@contextmanager
def way(deployed: Deployed, ssh: Mapping[str, Any] | None, client_from: str) -> Iterator[Way]:
    """To proxy and engines, as long as the body runs. `ssh`: how this machine logs in to the head."""
    urls = {"proxy": deployed.proxy, **deployed.engines}
    with ExitStack() as stack:
        if client_from == "head":
            if ssh is None:
                raise Refusal(Finding("--from", "the head is not reached over ssh", "use --from controller"))
            client = stack.enter_context(on_head(login(ssh), deployed.proxy_image))
        else:
            client = stack.enter_context(here())
            # Engines listen on the fabric or on loopback: they are asked by way of the head, as the proxy does.
            away = [url for target, url in urls.items() if target != "proxy" or _is_loopback(url)]
            if ssh is not None and away:
                tunnel = stack.enter_context(Tunnel(login(ssh), away))
                urls = {target: tunnel.url(url) if url in away else url for target, url in urls.items()}
        based = {target: f"{url}/v1" for target, url in urls.items()}
        yield Way(client, based, next(iter(deployed.engines)), deployed.model, deployed.key)


def _is_loopback(url: str) -> bool:
    return (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")
