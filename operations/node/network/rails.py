"""The rails of a node: as they are, changed under guard, and proven."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from operations.paths import VAR
from operations.wire.fabric import FabricTold

#: Seconds until the old files come back by themselves, unless the deploy says that it still reaches the node.
GUARD_S = 60
GUARD = "tandem-netplan-guard"
#: Who takes this mark away decides, the deploy or the guard: a file's name is taken once. The deploy leaves the other.
ARMED = Path(VAR) / "netplan-armed"
KEPT = Path(VAR) / "netplan-kept"
#: Takes the new files back: run by the timer (`apply`), or at a boot that comes before the deploy's word (`generate`).
UNDO = Path(VAR) / "netplan-undo.sh"
AT_BOOT = Path("/etc/systemd/system/tandem-netplan-undo.service")
_AT_BOOT = """[Unit]
Description=Tandem: takes back a netplan file that no deploy has confirmed
DefaultDependencies=no
After=local-fs.target
Before=network-pre.target
Wants=network-pre.target

[Service]
Type=oneshot
ExecStart=/bin/sh {undo} generate

[Install]
WantedBy=sysinit.target
"""


def apply(paths: Sequence[str]) -> FabricTold:
    """Put each path's `.pending` in its place and apply them, with a timer armed that takes all of them back."""
    # What was kept before is not this change.
    KEPT.unlink(missing_ok=True)
    subprocess.run(["systemctl", "stop", f"{GUARD}.timer"], capture_output=True, check=False)
    made = []
    for path in paths:
        file, old = Path(path), _old(path)
        # One that a broken deploy has left is the last that was confirmed.
        if not old.exists():
            made.append(old)
            if file.exists():
                shutil.copy2(file, old)
            else:
                old.touch()
    _write_undo(paths)
    ARMED.touch()
    timer = ["systemd-run", f"--on-active={GUARD_S}", f"--unit={GUARD}", "--collect", "/bin/sh", str(UNDO)]
    armed = subprocess.run(timer, capture_output=True, text=True, check=False)
    if armed.returncode != 0:
        # The guard of a deploy that broke off may be at work just now: its name is taken until it has ended.
        ARMED.unlink(missing_ok=True)
        _disarm()
        for old in made:
            old.unlink(missing_ok=True)
        said = armed.stderr.strip()[-300:]
        return {"problem": f"the network stays as it is, its guard can't be armed; run the deploy again: {said}"}
    for path in paths:
        Path(f"{path}.pending").rename(path)
    # It restarts NetworkManager where that has the rails, which reads its own file then.
    applied = subprocess.run(["netplan", "apply"], capture_output=True, text=True, check=False)
    if applied.returncode != 0:
        subprocess.run(["/bin/sh", str(UNDO)], check=False, capture_output=True)
        _disarm()
        return {"problem": f"netplan refused the file, the old one is back: {refused_at(applied.stderr)}"}
    return {"problem": ""}


def refused_at(said: str) -> str:
    """Where netplan met what it refuses, and the kind of fault: its own words quote lines, with Wi-Fi passwords."""
    places = re.findall(r"^(/\S+\.yaml:\d+:\d+: [\w ]+)", said, re.MULTILINE)
    return "; ".join(places) or "it named no place; its log says more (journalctl --since=-5min)"


def _old(path: str) -> Path:
    """What was there before; empty: nothing was."""
    return Path(f"{path}.tandem-old")


def _write_undo(paths: Sequence[str]) -> None:
    """A file, and not `sh -c`: systemd-run (252) escapes the semicolons of a script, and sh then refuses it."""
    UNDO.parent.mkdir(parents=True, exist_ok=True)
    back = "".join(
        f"if [ -s {old} ]; then mv -f {old} {path}; else rm -f {path} {old}; fi\n"
        for path, old in ((shlex.quote(path), shlex.quote(str(_old(path)))) for path in paths)
    )
    UNDO.write_text(
        f'if rm {ARMED} 2>/dev/null; then\n{back}netplan "${{1:-apply}}"\nfi\n'
        f"systemctl disable --quiet {AT_BOOT.name}\nrm -f {AT_BOOT}\n"
    )
    AT_BOOT.write_text(_AT_BOOT.format(undo=UNDO))
    subprocess.run(["systemctl", "enable", "--quiet", AT_BOOT.name], check=True, capture_output=True)


def _disarm() -> None:
    subprocess.run(["systemctl", "stop", f"{GUARD}.timer"], check=False, capture_output=True)
    subprocess.run(["systemctl", "disable", "--quiet", AT_BOOT.name], check=False, capture_output=True)
    AT_BOOT.unlink(missing_ok=True)


def keep(paths: Sequence[str]) -> FabricTold:
    """The deploy reaches the node: disarm the guard. `kept` is False when the guard was quicker, and where the change
    was not made: the new files still wait (`waiting`).
    """
    if any(Path(f"{path}.pending").exists() for path in paths):
        # The guard stays armed, if it is: `apply` may yet go on.
        return {"kept": False, "waiting": True}
    try:
        ARMED.rename(KEPT)
    except FileNotFoundError:
        # Kept before, and the answer was lost on its way; or taken back.
        if not KEPT.exists():
            return {"kept": False}
    _disarm()
    for path in paths:
        _old(path).unlink(missing_ok=True)
    return {"kept": True}
