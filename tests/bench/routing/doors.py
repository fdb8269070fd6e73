"""What stands before the engines: the real LiteLLM as Tandem configures it, and balancers of others beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from operations.plan.config.knobs import Knobs
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.litellm import MODULES, Behind, proxy_config
from tests.plan.samples import knobs
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
#: LiteLLM by the proxy image's own lock (`make venv-proxy`).
LITELLM = Path(os.environ.get("LITELLM", ROOT / ".venv-proxy/bin/litellm"))
#: What it runs, and what gives that a port for a test.
ON_A_PORT = ROOT / "tests/node/doubles/serve_on_a_port.py"
PROGRAM = (*(ROOT / f"files/litellm/{name}.py" for name in MODULES), ON_A_PORT)
KEY = "sk-bench"
#: Seconds until LiteLLM has begun: 8 of CPU, and as long as others leave it none.
START_S = 600
#: As operations/plan/services/litellm_service.py gives them to the container.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "AIOHTTP_KEEPALIVE_TIMEOUT": "2",
    "AIOHTTP_SO_KEEPALIVE": "True",
    "AIOHTTP_TCP_KEEPIDLE": "5",
    "AIOHTTP_TCP_KEEPINTVL": "5",
    "AIOHTTP_TCP_KEEPCNT": "3",
}


@dataclass
class Door:
    """A front door that runs; without a process it is not ours to end."""

    name: str
    url: str
    key: str
    process: subprocess.Popen[bytes] | None = None
    #: Further processes with the same engines, which know nothing of this one's requests.
    others: list[Door] = field(default_factory=list)

    def stop(self) -> None:
        """Ends it."""
        for door in self.others:
            door.stop()
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def litellm(
    routing: str,
    engines: Sequence[str],
    model: str,
    folder: Path,
    more: Sequence[Path] = (),
    before: Callable[[Path, Path], Sequence[str]] | None = None,
    instead: Sequence[Path] = (),
    shared: Path | None = None,
    recipe: str = "",
) -> Door:
    """The real LiteLLM, configuration and callbacks as a deploy renders them; `more`: callbacks of a test; `before`:
    what stands before its command line, by its folder and the one that it writes to; `instead`: doubles of files of
    the same names; its sockets are in `folder`, in `used`; `shared`: the folder that it has in common with others;
    `recipe`: of the engines.
    """
    wanted: Knobs = knobs(routing=routing, topology="replicas")
    behind = Behind(load_recipe(recipe or wanted.recipe).model_copy(update={"served_name": model}), tuple(engines))
    config = proxy_config(wanted, [behind])
    config["litellm_settings"]["callbacks"] += [f"{path.stem}.callback" for path in more]
    home = folder / routing
    home.mkdir(parents=True)
    (home / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    for path in (*PROGRAM, *more, *instead):
        shutil.copy(path, home)
    port = free_port()
    used = home / "used"
    used.mkdir()
    argv = [*(before(home, used) if before else ()), str(LITELLM.parent / "python3"), ON_A_PORT.name]
    argv += ["--config", "config.yaml", "--telemetry", "False"]
    # Below its own folder: the whole path may be longer than a socket's may be.
    sockets = {"TANDEM_LISTENS": "used/listens", "TANDEM_PULSE": "used/pulse"}
    environment = {"LITELLM_MASTER_KEY": KEY, "PORT": str(port), **sockets}
    environment |= {"TANDEM_SECRETS": str(home / "secrets"), "TANDEM_USED": str(used)}
    if shared:
        environment["TANDEM_SHARED"] = str(shared)
    return _start(routing, argv, port, KEY, home, ENVIRONMENT | environment)


def two_processes(routing: str, engines: Sequence[str], model: str, folder: Path) -> Door:
    """Two LiteLLM, each with half of the requests: what its --num_workers does. That itself can't be relied on here:
    uvicorn kills workers that are silent for 5 s, which they are while they are loaded on busy cores.
    """
    one, other = (litellm(routing, engines, model, folder / f"process-{number}") for number in range(2))
    return Door(f"{routing}, 2 processes", one.url, one.key, one.process, [other])


def haproxy(engines: Sequence[str], folder: Path) -> Door:
    """leastconn, with the option without which each first token waits."""
    home, port = folder / "haproxy", free_port()
    home.mkdir(parents=True)
    servers = [f"  server e{number} {url.removeprefix('http://')}" for number, url in enumerate(engines)]
    lines = ["defaults", "  mode http", "  option http-no-delay", "  timeout connect 5s", "  timeout client 900s"]
    lines += ["  timeout server 900s", "listen door", f"  bind 127.0.0.1:{port}", "  balance leastconn", *servers]
    (home / "haproxy.cfg").write_text("\n".join(lines) + "\n")
    return _start("HAProxy leastconn", [_program("haproxy"), "-f", "haproxy.cfg", "-db"], port, "", home, {})


def vllm_router(engines: Sequence[str], folder: Path, policy: str) -> Door:
    """vLLM's own router with one of its policies."""
    home, port = folder / f"vllm-router-{policy}", free_port()
    home.mkdir(parents=True)
    argv = [_program("vllm-router"), "--host", "127.0.0.1", "--port", str(port), "--policy", policy]
    argv += ["--prometheus-port", str(free_port()), "--worker-urls", *engines]
    return _start(f"vllm-router {policy}", argv, port, "", home, {})


def there(program: str) -> bool:
    """Whether it can be measured here."""
    return shutil.which(_program(program)) is not None


def _program(name: str) -> str:
    return os.environ.get(name.upper().replace("-", "_"), name)


def _start(name: str, argv: list[str], port: int, key: str, home: Path, environment: dict[str, str]) -> Door:
    """Runs it, its words in home/log. Raises RuntimeError with its last words when it does not come up."""
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=home, env={**os.environ, **environment}, stdout=log, stderr=log)
    door = Door(name, f"http://127.0.0.1:{port}", key, process)
    path = "/health/liveliness" if key else "/health"
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(door.url + path, timeout=5):
                print(f"  {name} is up", file=sys.stderr, flush=True)
                return door
        except OSError:
            time.sleep(0.5)
    door.stop()
    last = (home / "log").read_text(errors="replace").strip().splitlines()[-3:]
    raise RuntimeError(f"{name} did not come up: {' | '.join(last)}")
