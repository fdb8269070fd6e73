"""When a mod with a run.sh acts: on the image, at each start of the container, or on the node.

The tools that such mods are written for run them in the container before each start. What a mod changes in the image's
own files it changes once, when the image is obtained. What it does to a container that runs (a program beside the
engine, a folder that is mounted, the node's devices) would be dead in an image: that mod is run at each start, which
is right for any mod, but costs each start what it does. So where the signs are in doubt, it is the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from operations.plan.engines import addresses
from operations.plan.recipes.recipe import OWNED_ENV
from operations.plan.recipes.shell_text import ShellText, sort_out

When = Literal["build", "start", "node", "refused"]
#: Seconds between two times that a node drops its page cache, for a mod that does not say it.
DROP_S = 60
#: Characters of a run.sh that are judged; the longest known one has 14,000.
LIMIT = 50_000
#: `cmd &`, and neither `&&`, `&>`, `>&`, `<&`, `|&`, `;;&` nor the and of an expression.
_BEHIND = re.compile(r"(?<![&|<>;\\])&(?![&>])")
_EXPRESSION = re.compile(r"\(\((?:[^()]|\([^()]*\))*\)\)|(?<!\S)\[\[\s[^\n]{0,300}?\]\]")
_LEFT = re.compile(r"(?:^|[;&|(\s])(nohup|setsid|disown|daemonize|start-stop-daemon|ray start|--daemonize)(?=\s|$)")
#: Jobs that the script itself ends are not left behind.
_ENDED = re.compile(r"(?:^|[;&|(\s])(?:wait\b|kill\s+[^\n]*(?:\$|%))")
#: Where the node's own kernel or hardware is set: a container of Tandem's may not.
_KERNEL = re.compile(
    r"/proc/sys/[\w/.]+|/proc/sysrq-trigger|(?:>\s*|\btee\s+(?:-a\s+)?)/sys/[\w/.]+|\bsysctl\s+(?:-\w+\s+)*-?w?\s*[\w.]+="
    r"|\bnvidia-smi\s+(?:-pm|-pl|-lgc|-lmc|-ac|-rgc|-rac)\b|\bmodprobe\s+\S+|\bswapo(?:n|ff)\b|\bmount\s+-\S+"
)
_DROP = "/proc/sys/vm/drop_caches"
#: What changes files: a mod with one of these does more than to drop caches.
_CHANGES = re.compile(r"\b(?:python3?|pip|uv|patch|git|cp|mv|install|sed|curl|wget|apt|apt-get|ln|tar|unzip)\b")
#: Variables of sparkrun's hooks, where no default stands in for them.
_OTHERS = re.compile(r"\$\{?(SPARKRUN_\w+)(?!\w|:?-)")
#: Variables that a shell fills in, and that a Python program asks for.
_FILLED = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*)")
_ASKED = re.compile(r"""(?:environ\[|environ\.get\(|getenv\(|env\.get\()\s*["'](\w+)""")
#: In a program that a run.sh runs: it asks the node, or leaves a process behind.
_PROGRAM = re.compile(r"/sys/class/\w+|\bnetifaces\b|\bibv_devinfo\b|\bstart_new_session\s*=\s*True|\bos\.setsid\b")
#: What is not there while an image is built, or is hidden behind a mount when it runs.
_LATER = (
    (re.compile(r"(?:~|/root|\$\{?HOME\}?)/\.cache(?!/(?:pip|uv)\b)(?:/[\w.-]+)?"), "is mounted at each start"),
    (re.compile(r"\$\{?(?:HF_HOME|HF_HUB_CACHE|HUGGINGFACE_HUB_CACHE|XDG_CACHE_HOME)\b"), "is mounted at each start"),
    (re.compile(r"/cache/(?:huggingface|runtime)\b"), "is a mount of sparkrun's"),
    (re.compile(r"/dev/(?:shm|infiniband|nvidia\w*)\b|/sys/class/\w+|/proc/(?:driver|meminfo)\b"), "is the node's"),
    (re.compile(r"\bnvidia-smi\b|\btorch\.cuda\b|\bSELFCHECK_GPU\b"), "asks the GPU"),
    (re.compile(r"\b(?:ibv_devinfo|ibdev2netdev|ip\s+(?:-\w+\s+)*(?:addr|link)|hostname\s+-I)\b"), "asks the node"),
)


@dataclass(frozen=True)
class Acts:
    """When a mod acts, and the sign that says so. `every_s`: between two times, for what the node does in its place."""

    when: When
    sign: str = ""
    every_s: int = 0


def acts(folder: Path, names: Iterable[str] = ()) -> Acts:
    """What a folder's run.sh is; `names`: variables that the recipe sets. Raises OSError, UnicodeDecodeError."""
    return of_script((folder / "run.sh").read_text(), names, folder)


def of_script(raw: str, names: Iterable[str] = (), folder: Path | None = None) -> Acts:
    """The same of a script's text; `folder`: where the programs lie that it may run."""
    if len(raw) > LIMIT:
        return Acts("start", f"its run.sh has {len(raw)} characters, too many to be judged")
    script = sort_out(raw)
    said = "\n".join(each.said for each in script.all)
    if kernel := [match.group() for match in _KERNEL.finditer(said)]:
        if set(kernel) == {_DROP} and not _CHANGES.search(script.code):
            pause = re.search(r"\bsleep\s+(\d{1,5})\b", said)
            return Acts("node", f"it writes {_DROP}", int(pause.group(1)) if pause else DROP_S)
        what = next((each for each in kernel if each != _DROP), _DROP)
        already = " (each start drops the caches already)" if what == _DROP else ": set it there"
        return Acts("refused", f"it sets `{what}`, which is the node's{already}")
    programs = _beside(folder, said) if folder else {}
    asked = [name for text in programs.values() for name in _ASKED.findall(text)]
    others = [*_OTHERS.findall(script.filled), *(name for name in asked if name.startswith("SPARKRUN_"))]
    if others:
        return Acts("refused", f"it reads `${others[0]}`, which only sparkrun sets")
    return next(_at_start(programs, raw, script, said, names), Acts("build"))


def _at_start(
    programs: Mapping[str, str], raw: str, script: ShellText, said: str, names: Iterable[str]
) -> Iterator[Acts]:
    for each in script.all:
        code = _EXPRESSION.sub("", each.code)
        if (_BEHIND.search(code) or _LEFT.search(code)) and not _ENDED.search(code):
            line = next((line for line in code.splitlines() if _BEHIND.search(line) or _LEFT.search(line)), "")
            yield Acts("start", f"it leaves a process behind: `{' '.join(line.split())[:60]}`")
    wanted = [*OWNED_ENV, *addresses(), "VLLM_PORT", *names]
    # A program in a here-document asks as one in a file does.
    used = [*_FILLED.findall(script.filled), *_ASKED.findall(raw)]
    for program, text in programs.items():
        used += _ASKED.findall(text) if program.endswith(".py") else _FILLED.findall(sort_out(text).filled)
    if known := [name for name in used if name in wanted]:
        yield Acts("start", f"it reads `${known[0]}`, which a container has when it starts")
    # What a mod is for stands in its comments: compiled kernels are kept where the program says, not the script.
    comments = "\n".join(line for line in raw.splitlines() if line.lstrip().startswith("#"))
    for sign, why in _LATER:
        if found := sign.search(said) or (sign is _LATER[0][0] and sign.search(comments)):
            yield Acts("start", f"`{found.group()}` {why}")
    for program, text in programs.items():
        if found := _PROGRAM.search(text):
            yield Acts("start", f"{program} has `{found.group()}`, which is for what runs")


def _beside(folder: Path, said: str) -> dict[str, str]:
    """The folder's own programs that its run.sh names, by name."""
    words = dict.fromkeys(word for word in re.split(r"[^\w.-]+", said) if word.endswith((".py", ".sh")))
    names = [word for word in words if len(word) < 200 and word != "run.sh"]
    files = {name: folder / name for name in names}
    return {
        name: file.read_text(errors="replace")
        for name, file in files.items()
        if file.is_file() and not file.is_symlink()
    }
