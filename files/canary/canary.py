"""The canary: asks the engine for one token again and again, and kills the engine's container when it hangs.

`/health` is no sign of life: vLLM's own launcher answers 200 for minutes after a rank has died. An engine that is busy
is no engine that hangs: while its token counters move, a late answer does not count. systemd starts what was killed
anew, a bounded number of times; after ten minutes of service the count begins at nothing.

On every node it also looks at the rails: MTU, address and carrier can be lost at run time, and then nothing in the
engine's log says why it hangs.

Runs on the node as `canary.py SPEC`; canary.json beside it has `url` and `model` of the engine, `acts` (whether this
node's container is the one that answers), `deadline_s`, `start_s`, and `rails`: {device: {address, mtu}}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENGINE = "tandem-engine"
#: Seconds between looks while all is well.
LOOK_S = 2.0
#: Late answers in a row after which the engine hangs.
STRIKES = 3
#: Seconds of service after which restarts of the past are forgotten.
SETTLED_S = 600
STATE = Path("/run/tandem/canary.json")
NET = Path("/sys/class/net")
#: vLLM's counters of work; any of them moves while it works.
COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:iteration_tokens_total_count")


@dataclass
class Engine:
    """What is known of the engine since its container's start."""

    invocation: str = ""
    since: float = 0.0
    answered_at: float = 0.0
    strikes: int = 0
    work: float = -1.0
    settled: bool = False
    #: Why the container was killed, the last times.
    kills: list[str] = field(default_factory=list)

    def began(self, invocation: str, now: float) -> None:
        """Another start of the unit is another engine."""
        if invocation != self.invocation:
            self.invocation, self.since = invocation, now
            self.answered_at, self.strikes, self.work, self.settled = 0.0, 0, -1.0, False

    def judge(self, problem: str, work: float, now: float, start_s: float) -> str:
        """What to do after an answer (`problem` is empty) or none: `kill`, `settle` or nothing."""
        busy, self.work = work != self.work and work >= 0 and self.work >= 0, work
        if not problem:
            self.strikes, self.answered_at = 0, self.answered_at or now
            if not self.settled and now - self.answered_at >= SETTLED_S:
                self.settled = True
                return "settle"
            return ""
        if not self.answered_at:
            return "kill" if now - self.since > start_s else ""
        if busy:
            return ""
        self.strikes += 1
        return "kill" if self.strikes >= STRIKES else ""


def main() -> int:
    """Look, for ever."""
    wanted = json.loads(Path(__file__).with_name("canary.json").read_text())
    engine = Engine()
    told: list[str] = []
    while True:
        problems = rail_problems(wanted["rails"], NET, addresses())
        if problems != told:
            for problem in problems:
                say(f"{problem}; `make apply` mends what is Tandem's")
            told = problems
        invocation = running()
        engine.began(invocation, time.monotonic())
        if invocation:
            look(engine, wanted, problems)
        write({"rails": problems, "strikes": engine.strikes, "kills": engine.kills})
        if not engine.strikes:
            time.sleep(LOOK_S)


def look(engine: Engine, wanted: dict[str, Any], rails: list[str]) -> None:
    """Ask once, and do what follows."""
    problem = token_problem(wanted["url"], wanted["model"], wanted["deadline_s"])
    work = counters(wanted["url"]) if problem else -1.0
    verdict = engine.judge(problem, work, time.monotonic(), wanted["start_s"])
    if verdict == "settle":
        # Also takes back the count of starts: the next failure is a first one.
        subprocess.run(["systemctl", "reset-failed", f"{ENGINE}.service"], capture_output=True, check=False)
    if not wanted["acts"]:
        engine.strikes = 0
    elif verdict == "kill":
        why = f"no token: {problem}" + (f"; {'; '.join(rails)}" if rails else "")
        say(f"{why}: the engine's container is killed, systemd starts it anew")
        engine.kills = [*engine.kills, f"{time.strftime('%F %T')} {why}"][-3:]
        subprocess.run(["docker", "kill", ENGINE], capture_output=True, timeout=60, check=False)
    elif engine.strikes:
        say(f"no token ({problem}): strike {engine.strikes} of {STRIKES}")
        time.sleep(1)


def token_problem(url: str, model: str, deadline_s: float) -> str:
    """Why the engine gave no token in time; empty: it gave one."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=deadline_s) as response:
            return "" if json.load(response)["usage"]["completion_tokens"] else "an answer without a token"
    except TimeoutError:
        return f"none in {deadline_s:g} s"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def counters(url: str) -> float:
    """How much the engine has done since its start, from its metrics; below 0: it does not say."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as response:
            lines = response.read().decode(errors="replace").splitlines()
        found = [float(line.split()[-1]) for line in lines if line.startswith(COUNTERS)]
    except (OSError, ValueError, IndexError):
        return -1.0
    return sum(found) if found else -1.0


def running() -> str:
    """The unit's invocation while it is active; empty: nothing to ask."""
    argv = ["systemctl", "show", f"{ENGINE}.service", "--property=ActiveState,InvocationID", "--value"]
    words = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    return next((word for word in words if word != "active"), "") if "active" in words else ""


def addresses() -> dict[str, list[str]]:
    """IPv4 addresses with their prefix, by device."""
    text = subprocess.run(["ip", "-json", "-4", "address"], capture_output=True, text=True, check=False).stdout
    return {
        each["ifname"]: [f"{info['local']}/{info['prefixlen']}" for info in each["addr_info"]]
        for each in json.loads(text or "[]")
        if "ifname" in each
    }


def rail_problems(rails: dict[str, dict[str, Any]], net: Path, found: dict[str, list[str]]) -> list[str]:
    """What the rails lack, in words."""
    problems = []
    for device, wanted in rails.items():
        try:
            carrier = (net / device / "carrier").read_text().strip() == "1"
        except OSError:
            # A device that is down says nothing.
            carrier = False
        if not (net / device).exists():
            problems.append(f"the rail {device} is not there")
            continue
        if not carrier:
            problems.append(f"the rail {device} has no carrier: is its cable in, is the other node on?")
        mtu = (net / device / "mtu").read_text().strip()
        if mtu != str(wanted["mtu"]):
            problems.append(f"the rail {device} has MTU {mtu}, not {wanted['mtu']}")
        if wanted["address"] not in found.get(device, []):
            problems.append(f"the rail {device} has not its address {wanted['address']}")
    return problems


def write(state: dict[str, Any]) -> None:
    """For `make status`."""
    STATE.parent.mkdir(exist_ok=True)
    aside = STATE.with_suffix(".part")
    aside.write_text(json.dumps(state))
    aside.rename(STATE)


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
