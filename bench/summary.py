"""The end of a run on the terminal: a row for each setup, target and number of users, over all repeats."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from bench import folder as folders
from bench.figures import Figures, figures
from bench.noise import spread
from bench.records import Folder, Step
from bench.show import Show
from bench.slo import Slo

#: Lines of warnings that are said again.
WARNINGS = 12
_COLUMNS: dict[str, Callable[[Figures], float | None]] = {
    "decode tok/s": lambda found: found.decode_tok_s,
    "whole tok/s": lambda found: found.whole_tok_s,
    "prefill tok/s": lambda found: found.prefill_tok_s,
    "ttft ms": lambda found: found.ttft_s.p50 * 1000 if found.ttft_s else None,
    "p99": lambda found: found.ttft_s.p99 * 1000 if found.ttft_s else None,
    "between ms": lambda found: found.between_s.p50 * 1000 if found.between_s else None,
    "a user tok/s": lambda found: found.user_tok_s,
    "in target %": lambda found: None if found.slo_share is None else found.slo_share * 100,
    "share": lambda found: found.largest_share,
    "cached %": lambda found: None if found.prefix_share is None else found.prefix_share * 100,
}


def summary(folder: Folder, show: Show) -> None:
    """What is there; a run that was broken off has fewer repeats."""
    run, steps, requests = folders.read(folder.path)
    slo = Slo.of(run.slo)
    rows: dict[tuple[str, str, int, str], list[tuple[Step, Figures]]] = {}
    for step in steps:
        key = (step.setup, step.target, step.users, step.which)
        rows.setdefault(key, []).append((step, figures(step, requests[step.name], slo)))
    told = [
        name for name, of in _COLUMNS.items() if any(of(each) is not None for row in rows.values() for _, each in row)
    ]
    table = Table("setup", "target", "users", "n", *told, "failed", "wrong", box=None, pad_edge=False)
    for (setup, target, users, which), found in sorted(rows.items()):
        cells = []
        for read in (_COLUMNS[name] for name in told):
            over = spread([value for _, each in found if (value := read(each)) is not None])
            cells.append(_cell(over.mean, (over.high - over.low) / 2) if over else "")
        failed, wrong = (sum(values) for values in zip(*((each.errors, each.wrong) for _, each in found), strict=True))
        named = f"{target} {which}".strip()
        table.add_row(setup, named, str(users), str(len(found)), *cells, str(failed or ""), str(wrong or ""))
    if rows:
        show.table(table)
    for each in run.setups:
        if each.why_not:
            show.say(f"{each.name} did not come up: {each.why_not}")
    if show.warnings:
        show.say("\nBefore you believe a figure:")
    for warning in show.warnings[:WARNINGS]:
        show.say(f"  ! {warning}")
    if (more := len(show.warnings) - WARNINGS) > 0:
        show.say(f"  ! and {more} more, above")
    show.say(f"\n{folder.path} has every request; `tandem report {folder.path}` makes pages of it")


def _cell(mean: float, half: float) -> str:
    """With half of the range of its repeats."""
    digits = 0 if mean >= 100 else 1 if mean >= 10 else 2
    return f"{mean:,.{digits}f}" + (f" ±{half:,.{digits}f}" if half else "")
