"""`python -m tests.chaos`: boots the lab, does every fault to it in every scene, and prints what was seen.

--scene replicas     one scene only (--list names them); again for more
--only WORDS         faults whose name contains the words; again for more
--fast               the subset that the tests run
--go-on              without those that were as expected before, seen with the same commit
--list               what there is, and what can't be done here

Each row is kept in docs/faults.json and docs/faults.md as soon as it is done; the table at the end has those of earlier
runs as well.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from tests.chaos import results, row
from tests.chaos.fault import EVERY, Fault
from tests.chaos.faults import FAULTS, NOT_HERE
from tests.chaos.row import Row
from tests.chaos.scene import Scene


def main() -> int:
    """Exit 1 when a row is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--scene", action="append", choices=EVERY, default=[])
    parser.add_argument("--only", action="append", default=[], metavar="WORDS")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = {
        scene: [fault for fault in FAULTS if _is_wanted(fault, scene, arguments)]
        for scene in arguments.scene or EVERY
    }  # fmt: skip
    if arguments.list:
        listing(chosen)
        return 0
    code = results.code()
    seen = [each for each in results.read() if each.code == code and each.is_good] if arguments.go_on else []
    done = {(each.scene, each.fault) for each in seen}
    left = {scene: [each for each in faults if (scene, each.name) not in done] for scene, faults in chosen.items()}
    for each in every(left):
        results.keep(replace(each, code=code))
    asked = {(scene, fault.name) for scene, faults in chosen.items() for fault in faults}
    rows = [each for each in results.read() if (each.scene, each.fault) in asked]
    report(rows)
    return 0 if all(each.is_good for each in rows) else 1


def _is_wanted(fault: Fault, scene: str, arguments: argparse.Namespace) -> bool:
    if scene not in (fault.fast if arguments.fast else fault.scenes):
        return False
    return not arguments.only or any(words in fault.name for words in arguments.only)


def every(chosen: dict[str, list[Fault]]) -> Iterable[Row]:
    """Rows, as they are done."""
    for name, faults in chosen.items():
        if not faults:
            continue
        scene = Scene.named(name)
        say(f"{name}: deploying, learning the right answers")
        scene.set_up()
        if scene.cold_start_s:
            say(f"{name}: a cold start takes {scene.cold_start_s:.1f} s")
        for fault in faults:
            say(f"{name}: {fault.name} ...")
            done = attempt(scene, fault)
            say(f"{name}: {fault.name}: {done.serves_again_s} s, {done.requests}, {done.drift}: {done.verdict}")
            yield done


def attempt(scene: Scene, fault: Fault) -> Row:
    """A row. What its own code fails with is in it as well: two hours of other rows do not end with it."""
    began = time.monotonic()
    try:
        return row.run(scene, fault)
    except Exception as error:
        traceback.print_exc()
        done = Row(scene.name, fault.name, fault.expected, took_s=round(time.monotonic() - began))
        done.problems.append(f"the row broke off: {type(error).__name__}: {error}")
        repaired = scene.deploy()
        if repaired.code != 0:
            raise AssertionError(
                f"{scene.name}: not to be had again after {fault.name}: {repaired.text[-2000:]}"
            ) from error
        return done


def report(rows: list[Row]) -> None:
    """The whole table, and what is not in it."""
    columns = ("scene", "fault", "expected", "serves again, s", "gap, s", "requests", "deploy after", "seen")
    table = Table(*columns, box=None, pad_edge=False)
    for each in rows:
        again = f"{each.serves_again_s:.0f}" + (f" of {each.limit_s:.0f}" if each.limit_s else "")
        table.add_row(
            each.scene, each.fault, each.expected, again, f"{each.gap_s:.0f}", each.requests, each.drift, each.verdict
        )
    Console(width=None if sys.stdout.isatty() else 220).print(table)
    good = sum(each.is_good for each in rows)
    print(f"\n{len(rows)} rows, {good} as expected, {sum(each.took_s for each in rows) / 60:.0f} minutes")
    seen_with = ", ".join(dict.fromkeys(each.code for each in rows))
    print(f"seen with {seen_with}; all of it is in docs/faults.json")


def listing(chosen: dict[str, list[Fault]]) -> None:
    """Names, scene by scene."""
    for scene, faults in chosen.items():
        for fault in faults:
            print(f"{scene:12} {fault.name}: {fault.expected}")
    for what, why in NOT_HERE.items():
        print(f"not here     {what}: {why}")


def say(text: str) -> None:
    """Progress."""
    print(f"chaos {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
