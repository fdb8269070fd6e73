"""The canary: looks whether the engine works, asks an idle one for a token, and kills the container of one that hangs.

`/health` is no sign of life: vLLM's own launcher answers 200 for minutes after a rank has died. Tokens are: while the
engine's counters of them move nothing is asked, which costs nothing, and a late answer does not count. One that has
just fallen idle is asked at once, and then seldom: after each token vLLM's ranks look for the next one for a second
with a whole core (its `SpinCondition`). systemd starts what was killed anew, a bounded number of times; after ten
minutes of service the count begins at nothing.

On every node it also looks at the rails: MTU, address and carrier can be lost at run time, and then nothing in the
engine's log says why it hangs. An engine that can't be reached because its rail is cut is left alone, and so is one
whose other ranks can't be reached: if they stay away, the ranks' meeting sees it and ends them all.

Runs on the node as `canary.py SPEC`; canary.json beside it has `url` and `model` of the engine, `acts` (whether this
node's container is the one that answers), `deadline_s`, `start_s`, `rails`: {device: {address, mtu}}, and `peers`:
{name: address} of the nodes with the engine's other ranks.
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
#: Looks in the time that an answer may take, while all is well.
LOOKS = 3
#: Times the deadline of an answer after which an engine without a sign of life hangs.
STRIKES = 3
#: Seconds between two questions to an engine that gives no sign of life, and the least that an answer may take.
SOON_S = 0.5
#: Seconds between two looks at one that starts, at least.
STARTING_S = 2.0
#: Times the deadline for which an idle engine that has given a token is not asked again.
REST = 2
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
    #: When it was seen for the first time without a sign of life; 0: it lives.
    silent_since: float = 0.0
    #: Until when it is not asked, as long as it stays idle.
    rests_until: float = 0.0
    #: What its counters said last; below 0: nothing.
    work: float = -1.0
    settled: bool = False
    problem: str = ""
    #: Why the container was killed, the last times.
    kills: list[str] = field(default_factory=list)

    def began(self, invocation: str, now: float) -> None:
        """Another start of the unit is another engine."""
        if invocation != self.invocation:
            self.invocation, self.since = invocation, now
            self.answered_at, self.silent_since, self.rests_until = 0.0, 0.0, 0.0
            self.work, self.settled = -1.0, False

    def has_worked(self, work: float) -> bool:
        """Whether its counters have moved since the last time; below 0: they are not known."""
        moved, self.work = work >= 0 and self.work >= 0 and work != self.work, work
        return moved

    def judge(self, problem: str, asked: float, now: float, start_s: float, silence_s: float) -> str:
        """What to do after a sign of life (`problem` is empty) or none: `kill`, `settle` or nothing.

        It was `asked` for then: an engine is silent since the question, and not since the answer did not come.
        """
        if not problem:
            self.silent_since, self.answered_at = 0.0, self.answered_at or now
            if not self.settled and now - self.answered_at >= SETTLED_S:
                self.settled = True
                return "settle"
            return ""
        if not self.answered_at:
            return "kill" if now - self.since > start_s else ""
        self.silent_since = self.silent_since or asked
        return "kill" if now - self.silent_since >= silence_s else ""


def main() -> int:
    """Look, for ever."""
    wanted = json.loads(Path(__file__).with_name("canary.json").read_text())
    engine = Engine()
    told: list[str] = []
    while True:
        found = addresses()
        problems = [problem for device in wanted["rails"] for problem in rail_problems(wanted, device, NET, found)]
        if problems != told:
            for problem in problems:
                say(f"{problem}; `make apply` mends what is Tandem's")
            told = problems
        invocation = running()
        engine.began(invocation, time.monotonic())
        if invocation:
            look(engine, wanted, problems, found)
        write({"rails": problems, "engine": engine.problem, "kills": engine.kills})
        time.sleep(pause_s(engine, wanted["deadline_s"]))


def pause_s(engine: Engine, deadline_s: float) -> float:
    """Seconds until the next look: one that hangs is asked again soon, one that starts is left in peace."""
    if engine.silent_since:
        return SOON_S
    return max(deadline_s / LOOKS, 0.0 if engine.answered_at else STARTING_S)


def look(engine: Engine, wanted: dict[str, Any], rails: list[str], found: dict[str, list[str]]) -> None:
    """Look once, and do what follows."""
    asked, was_silent = time.monotonic(), bool(engine.silent_since)
    silence_s = STRIKES * wanted["deadline_s"]
    # The last question waits only until the silence has lasted long enough.
    left_s = engine.silent_since + silence_s - asked if was_silent else silence_s
    problem = problem_of(engine, wanted, min(wanted["deadline_s"], max(SOON_S, left_s)))
    if cut := unreachable(wanted, NET, found) or (problem and cut_off(wanted["peers"])):
        # It is the rail and not the engine; whoever waits for an answer over it waits for the rail.
        engine.problem, engine.silent_since = cut, 0.0
        return
    verdict = engine.judge(problem, asked, time.monotonic(), wanted["start_s"], silence_s)
    if verdict == "settle":
        # Also takes back the count of starts: the next failure is a first one.
        subprocess.run(["systemctl", "reset-failed", f"{ENGINE}.service"], capture_output=True, check=False)
    if not wanted["acts"]:
        engine.silent_since = 0.0
    elif verdict == "kill":
        why = f"no sign of life for {silence_s:g} s ({problem})" + (f"; {'; '.join(rails)}" if rails else "")
        say(f"{why}: the engine's container is killed, systemd starts it anew")
        engine.kills = [*engine.kills, f"{time.strftime('%F %T')} {why}"][-3:]
        subprocess.run(["docker", "kill", ENGINE], capture_output=True, timeout=60, check=False)
    elif engine.silent_since and not was_silent:
        say(f"no sign of life: {problem}; it is killed after {silence_s:g} s of that")


def problem_of(engine: Engine, wanted: dict[str, Any], deadline_s: float) -> str:
    """Why there is no sign of life within so many seconds; empty: there is one."""
    url = wanted["url"]
    try:
        if engine.has_worked(counters(url, deadline_s)):
            engine.problem, engine.rests_until = "", 0.0
        elif engine.work < 0 or time.monotonic() >= engine.rests_until:
            engine.problem = token_problem(url, wanted["model"], deadline_s)
            # Its own token is no sign of life the next time; work while an answer was waited for is one now.
            has_worked = engine.has_worked(counters(url, deadline_s))
            if not engine.problem:
                engine.rests_until = time.monotonic() + REST * wanted["deadline_s"]
            elif has_worked:
                engine.problem = ""
    except TimeoutError:
        engine.problem, engine.rests_until = f"its metrics do not come in {deadline_s:g} s", 0.0
    return engine.problem


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


def counters(url: str, deadline_s: float) -> float:
    """How much the engine has done since its start, from its metrics; below 0: it does not say.

    Raises TimeoutError when it takes the question and does not answer.
    """
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=deadline_s) as response:
            lines = response.read().decode(errors="replace").splitlines()
        found = [float(line.split()[-1]) for line in lines if line.startswith(COUNTERS)]
    except TimeoutError:
        raise
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


def rail_problems(wanted: dict[str, Any], device: str, net: Path, found: dict[str, list[str]]) -> list[str]:
    """What a rail lacks, in words."""
    rail = wanted["rails"][device]
    if not (net / device).exists():
        return [f"the rail {device} is not there"]
    problems = []
    try:
        carrier = (net / device / "carrier").read_text().strip() == "1"
    except OSError:
        # A device that is down says nothing.
        carrier = False
    if not carrier:
        problems.append(f"the rail {device} has no carrier: is its cable in, is the other node on?")
    mtu = (net / device / "mtu").read_text().strip()
    if mtu != str(rail["mtu"]):
        problems.append(f"the rail {device} has MTU {mtu}, not {rail['mtu']}")
    if rail["address"] not in found.get(device, []):
        problems.append(f"the rail {device} has not its address {rail['address']}")
    return problems


def unreachable(wanted: dict[str, Any], net: Path, found: dict[str, list[str]]) -> str:
    """Why the engine's address is not to be reached from this node itself; empty: it is."""
    for device, rail in wanted["rails"].items():
        if rail["address"].partition("/")[0] in wanted["url"]:
            lost = [each for each in rail_problems(wanted, device, net, found) if "has MTU" not in each]
            return "; ".join(lost)
    return ""


def cut_off(peers: dict[str, str]) -> str:
    """Which node of the engine's other ranks does not answer over the rail; empty: all do."""
    for name, address in peers.items():
        argv = ["ping", "-q", "-c", "1", "-W", "1", address]
        try:
            answers = subprocess.run(argv, capture_output=True, check=False).returncode == 0
        except OSError:
            # No ping on this node: nothing is known of the rail.
            return ""
        if not answers:
            return f"{name} does not answer over the rail at {address}"
    return ""


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
