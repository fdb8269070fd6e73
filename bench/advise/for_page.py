"""What the page is told of benches and advice. A deploy asks it where it starts a page; else it is not even loaded."""

from __future__ import annotations

from operations.plan.plan import Plan


def for_page(plan: Plan, count: int) -> str:
    """As text, of the models of a plan on so many nodes (bench/advise/page.py)."""
    from bench.advise import page

    return page.told(page.of_plan(plan, count))
