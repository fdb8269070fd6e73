"""The real LiteLLM, configured as a deploy renders it, over a double of an engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from operations.plan.recipes.formats import load_recipe
from operations.plan.services.litellm import Behind, proxy_config
from tests.bench.routing.doors import ON_A_PORT, PROGRAM
from tests.node import strangers
from tests.node.confined import behind, owned, place
from tests.node.strangers import request
from tests.plan.samples import ROOT, knobs
from tests.support.ports import free_port

#: By the proxy image's lock.
LITELLM = Path(os.environ.get("LITELLM", ROOT / ".venv-proxy/bin/litellm"))
DOUBLES = Path(__file__).parent / "doubles"
CHAT, OWNER = "/v1/chat/completions", "sk-owner-marker"
#: Seconds until LiteLLM has loaded: 8 of CPU, 12 with all of its routes, and as long as others leave it none.
START_S = 900


def body(text: str = "secret-prompt-marker", tokens: int = 4, **more: Any) -> dict[str, Any]:
    """Of a chat."""
    return {"model": "double", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, **more}


class Proxy:
    """LiteLLM as it lies on a head; `without` one file, run by `serves`, with all of its `routes` loaded and told. For
    root in a `confined.place`, as its container has it.
    """

    def __init__(self, folder: Path, without: str = "", serves: str = ON_A_PORT.name, routes: bool = True) -> None:
        self.folder, self.port, engine = folder / "proxy", free_port(), free_port()
        self.url, self.used = f"http://127.0.0.1:{self.port}", folder / "used"
        self.log = folder / "log"
        self.shared, self.told = folder / "shared", folder / "told"
        owned(self.folder / "secrets", self.used, self.shared, self.told)
        wanted = knobs(topology="solo", routing="balanced")
        recipe = load_recipe(wanted.recipe).model_copy(update={"served_name": "double"})
        config = proxy_config(wanted, [Behind(recipe, (f"http://127.0.0.1:{engine}",))])
        if routes:
            config["litellm_settings"]["callbacks"].append("litellm_routes.callback")
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        for file in [*PROGRAM, DOUBLES / "litellm_routes.py"]:
            if file.name != without:
                shutil.copy(file, self.folder)
        argv = [sys.executable, "-m", "tests.node.doubles.engine_double", str(engine)]
        self.processes = [subprocess.Popen(argv, cwd=ROOT)]
        confined = behind(folder, self.used, self.shared, self.told, python=LITELLM.parent / "python3")
        argv = [*confined, str(LITELLM.parent / "python3"), serves, "--config", "config.yaml"]
        environment = {**os.environ, "LITELLM_MASTER_KEY": OWNER, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.pulse = f"unix:{self.used}/pulse"
        environment |= {"FORWARDED_ALLOW_IPS": "*", "PORT": str(self.port), "TANDEM_LISTENS": f"{self.used}/listens"}
        environment |= {"TANDEM_PULSE": f"{self.used}/pulse"}
        environment |= {
            "TANDEM_SECRETS": str(self.folder / "secrets"),
            "TANDEM_USED": str(self.used),
            "TANDEM_SHARED": str(self.shared),
            "PYTHONUNBUFFERED": "1",
        }
        if routes:
            environment["LITELLM_DISABLE_LAZY_ROUTES"] = "1"
        environment |= {"FROZEN_TO": str(self.told / "frozen"), "ROUTES_TO": str(self.told / "routes.json")}
        with self.log.open("w") as log:
            argv += ["--telemetry", "False"]
            self.processes.append(subprocess.Popen(argv, cwd=self.folder, env=environment, stdout=log, stderr=log))

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.processes[-1].poll() is None:
            with suppress(OSError):
                if request(self.url, *strangers.LIVENESS)[0] == 200:
                    return
            time.sleep(0.5)
        raise AssertionError(self.log.read_text()[-3000:])

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def routes(self) -> list[tuple[str, str]]:
        """Of LiteLLM's table."""
        return [(method, path) for method, path in json.loads((self.told / "routes.json").read_text())]

    def chat(self, key: str | None, *arguments: Any, **more: Any) -> tuple[int, dict[str, str], bytes]:
        """One chat."""
        return request(self.url, "POST", CHAT, key, body(*arguments, **more))


@contextmanager
def running(folder: Path) -> Iterator[Proxy]:
    """LiteLLM that answers, until the end."""
    with place(folder) as home:
        proxy = Proxy(home)
        try:
            proxy.wait()
            yield proxy
        finally:
            proxy.stop()
