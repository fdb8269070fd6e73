"""What a deploy says first and last: what it will fetch, what is away meanwhile; how to use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from operations.plan.plan import Plan

_WIDTH = 8
_GB = 1024**3 / 1e9
#: Verbs that come next.
_NEXT = (("chat", "talk to it here"), ("key NAME", "a key for each who uses it"), ("status", "how it is, any time"))


@dataclass(frozen=True)
class Missing:
    """What a node has to fetch. `gib`: of it what is known."""

    what: str
    gib: float


def opening(missing: Sequence[Missing], stops: Sequence[str]) -> str:
    """One line before the first change. `stops`: engines that serve now and start anew."""
    gib = sum(each.gib for each in missing)
    about = f" (about {gib * _GB:.0f} GB in all)" if gib else ""
    named = " and ".join(each.what for each in missing)
    fetched = f"to download: {named}{about}; progress says how long" if missing else "nothing to download"
    away = f"{', '.join(stops)} serves until the switch, and is away while it starts" if stops else "nothing stops"
    return f"{fetched}; {away}"


def card(plan: Plan, key: str, address: str = "", login: str = "") -> list[str]:
    """The lines at the end of a deploy that has brought up a new plan.

    `key`: the owner's, or empty where it is not to be shown; `address`: the URL at the virtual address, or empty;
    `login`: how ssh is told the head, where its name is not enough.
    """
    knobs, head = plan.knobs, plan.head.node.name
    url = address or next(iter(plan.urls.values()))
    names = [each.recipe.served_name for each in plan.models]
    rows = [("where", f"{url}/v1"), ("", _reach(knobs.proxy_bind, head))]
    if knobs.proxy_bind == "loopback":
        port = knobs.proxy_port
        rows.append(("", 'for your network: proxy_bind = "management" in group_data/all.py,'))
        rows.append(("", "then tandem apply"))
        rows.append(("", f"on another machine: ssh -N -L {port}:127.0.0.1:{port} {login or head}"))
    rows.append(("model", ", ".join(names)))
    rows.append(("key", key or "`tandem endpoint` shows it"))
    rows.append(("try it", _curl(url, key, names[0], knobs.tls == "self")))
    if knobs.monitoring == "off":
        rows.append(("page", 'none yet: monitoring = "metrics" in group_data/all.py, tandem apply'))
    else:
        rows.append(("page", f"{url}/tandem/"))
        rows.append(("", "a browser asks: any name, the key as the password (tandem open)"))
    rows.append(("apps", "Open WebUI, Cline, Continue, Codex: base URL, key and model as above"))
    rows.append(("", f"Claude Code: ANTHROPIC_BASE_URL={url}"))
    rows.append(("", f"             ANTHROPIC_AUTH_TOKEN=the key ANTHROPIC_MODEL={names[0]}"))
    rows.append(("", 'one is refused? docs/connect.md in the clone, "When an app is refused"'))
    rows += [("next" if not number else "", f"tandem {verb:<10}{why}") for number, (verb, why) in enumerate(_NEXT)]
    return ["", *(f"  {name:<{_WIDTH}}{text}" for name, text in rows), ""]


def again(plan: Plan, is_changed: bool, address: str = "") -> str:
    """The line at the end of a deploy of a plan that has served before."""
    names = ", ".join(each.recipe.served_name for each in plan.models)
    url = address or next(iter(plan.urls.values()))
    return f"{'done' if is_changed else 'nothing has changed'}: {url}/v1 serves {names}"


def _reach(bind: str, head: str) -> str:
    if bind == "loopback":
        return f"only {head} itself reaches it"
    return "your network reaches it" if bind in ("management", "all") else f"whoever reaches {bind} reaches it"


def _curl(url: str, key: str, model: str, is_own_authority: bool) -> str:
    """One line that works as it is; without a key it asks for it first."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    bearer = f"Authorization: Bearer {key}" if key else ""
    first = "" if key and not is_own_authority else 'eval "$(tandem endpoint)"; '
    trusts = ' --cacert "$SSL_CERT_FILE"' if is_own_authority else ""
    header = shlex.quote(bearer) if key else '"Authorization: Bearer $OPENAI_API_KEY"'
    type_ = shlex.quote("Content-Type: application/json")
    return f"{first}curl {url}/v1/chat/completions{trusts} -H {header} -H {type_} -d {shlex.quote(body)}"
