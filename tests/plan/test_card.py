"""What a deploy says first and last, as an owner reads it."""

from __future__ import annotations

import shlex

import pytest

from operations.plan.card import Missing, again, card, opening
from tests.deploy.fake import planned

KEY = "sk-1234"


def rows(key: str = KEY, **changes: str) -> list[str]:
    return card(planned(topology="solo", **changes), key)


def test_what_is_to_download_and_who_is_away_is_one_line() -> None:
    missing = [Missing("vllm/vllm-openai:v0.30", 25), Missing("nvidia/Model", 75), Missing("proxy", 0)]
    assert opening(missing, ["nemotron"]) == (
        "to download: vllm/vllm-openai:v0.30 and nvidia/Model and proxy (about 107 GB in all); progress says how long; "
        "nemotron serves until the switch, and is away while it starts"
    )
    assert opening([], []) == "nothing to download; nothing stops"


def test_a_card_on_loopback_says_who_reaches_it_and_the_knob_that_changes_it() -> None:
    text = "\n".join(rows())
    assert "only @fake/spark-1 itself reaches it" in text
    assert 'for your network: proxy_bind = "management" in group_data/all.py' in text
    assert "on another machine: ssh -N -L 8000:127.0.0.1:8000 @fake/spark-1" in text
    assert 'monitoring = "metrics" in group_data/all.py' in text


def test_a_card_for_a_network_has_its_page() -> None:
    text = "\n".join(rows(proxy_bind="management", monitoring="metrics"))
    assert "your network reaches it" in text and "ssh -N" not in text
    assert ":8000/tandem/\n" in text and "any name, the key as the password (tandem open)" in text


@pytest.mark.parametrize("key", [KEY, ""])
def test_the_curl_line_is_one_that_a_shell_takes(key: str) -> None:
    (line,) = (row for row in rows(key) if "curl" in row)
    words = shlex.split(line.partition("try it")[2].strip())
    at = words.index("curl")
    assert words[at + 1] == "http://127.0.0.1:8000/v1/chat/completions"
    assert words[words.index("-H") + 1] == f"Authorization: Bearer {key or '$OPENAI_API_KEY'}"
    assert (words[0] == "eval") == (not key)
    assert words[-1].startswith('{"model": ') and not words[-2].startswith("{")


def test_a_card_has_the_key_only_where_it_is_given() -> None:
    assert sum(KEY in row for row in rows()) == 2
    assert "key     `tandem endpoint` shows it" in "\n".join(rows(key=""))


def test_of_a_plan_that_serves_already_there_is_a_line() -> None:
    plan = planned(topology="solo")
    assert again(plan, is_changed=False).startswith("nothing has changed: http://127.0.0.1:8000/v1 serves ")
    assert again(plan, is_changed=True, address="http://10.0.0.9:8000").startswith("done: http://10.0.0.9:8000/v1 ")


def test_the_way_by_ssh_is_the_inventory_s() -> None:
    """A name alone is not enough for ssh where the inventory has an address, a login or a port."""
    text = "\n".join(card(planned(topology="solo"), "k", "", "-p 2222 me@192.168.1.20"))
    assert "on another machine: ssh -N -L 8000:127.0.0.1:8000 -p 2222 me@192.168.1.20" in text


@pytest.mark.parametrize("knobs", [{}, {"proxy_bind": "management", "monitoring": "metrics"}])
def test_only_the_line_that_is_copied_is_wider_than_a_terminal(knobs: dict[str, str]) -> None:
    wide = [row.strip().split()[0] for row in rows(**knobs) if len(row) > 80]
    assert wide == ["try"]
