"""Whom alarms are sent to: the knob `alarms`, read strictly, and what Alertmanager is told of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from operations.plan.config.refusal import Finding
from operations.wire import Json
from operations.wire.monitoring import AlarmReceiver
from operations.wire.unit import Receiver as GoesTo

#: Kind -> what may stand beside it.
_WORDS = {
    "webhook": {"token_file"},
    "ntfy": {"token_file"},
    "email": {"from", "smtp", "user", "password_file", "plain"},
}
_EXPECTED = 'expected a list of {"webhook": URL}, {"ntfy": URL} or {"email": ADDRESS, "from": ..., "smtp": "HOST:PORT"}'
#: ntfy fills them with Alertmanager's JSON (its server 2.10 and later).
_NTFY = {
    "tpl": "1",
    "t": "Tandem: {{.status}}",
    "m": (
        "{{range .alerts}}{{.status}}: {{.annotations.summary}}\n"
        "-> {{.annotations.next}} ({{.annotations.model}})\n"
        "{{with .annotations.explain}}   {{.}}\n{{end}}{{end}}"
    ),
}
#: The one port on which Alertmanager speaks TLS from the first byte.
_TLS_PORT = 465
#: A host as all URL readers take it, with a port or none.
_HOST = re.compile(r"([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
#: What a person reads in a mail. Alertmanager's own is a page of HTML with links that lead nowhere from a desk.
_SUBJECT = "Tandem, {{ .Status }}: {{ range .Alerts }}{{ .Annotations.summary }}; {{ end }}"
_TEXT = (
    "{{ range .Alerts }}{{ .Status }}: {{ .Annotations.summary }}\nnext: {{ .Annotations.next }}\n"
    "model: {{ .Annotations.model }}\nalarm: {{ .Labels.alertname }}, since {{ .StartsAt }}\n"
    "{{ with .Annotations.explain }}more: {{ . }}\n{{ end }}\n{{ end }}"
)


def read_alarms(receivers: Any) -> tuple[AlarmReceiver, ...]:
    """The receivers as they were given; raises ValueError that says which one is wrong. It quotes none: an owner may
    have written a password there.
    """
    if not isinstance(receivers, list | tuple) or not all(isinstance(each, dict) for each in receivers):
        raise ValueError(_EXPECTED)
    for number, each in enumerate(receivers, 1):
        if problem := _problem(each):
            raise ValueError(f"number {number}: {problem}")
    return tuple(receivers)


def _problem(receiver: Mapping[str, Any]) -> str:
    kinds = [kind for kind in _WORDS if kind in receiver]
    if len(kinds) != 1:
        return _EXPECTED
    kind = kinds[0]
    if strange := sorted(set(map(str, receiver)) - _WORDS[kind] - {kind}):
        return f"a receiver of {kind} knows no {', '.join(strange)}; beside it: {', '.join(sorted(_WORDS[kind]))}"
    if not isinstance(receiver.get("plain", False), bool):
        return "plain is True or False"
    if texts := [word for word, value in receiver.items() if word != "plain" and not _is_word(value)]:
        return f"{texts[0]} is no text in one line"
    return _mail_problem(receiver) if kind == "email" else _url_problem(receiver[kind])


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _url_problem(text: str) -> str:
    """Alertmanager ends over a URL that it can't read, and then nobody is told of anything."""
    expected = "expected an http:// or https:// URL with a host"
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return expected
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        return expected
    if url.username or url.password:
        return "the URL has a user or a password in it: put a token into a file, and name it as token_file"
    if not text.isascii() or " " in text:
        return "the URL has a space, or a character that is not ASCII: write it in hex digits, a space as %20"
    if _BAD_ESCAPE.search(text):
        return "the URL has a % that two hex digits do not follow: a % itself is written %25"
    return "" if _HOST.fullmatch(url.netloc) else expected


def _mail_problem(receiver: Mapping[str, Any]) -> str:
    for word in ("from", "smtp"):
        if word not in receiver:
            return f"a receiver of email needs `{word}`"
    host, _, port = receiver["smtp"].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        return 'smtp is "HOST:PORT", as "mail.example.org:587"'
    if any("@" not in receiver[word] for word in ("email", "from")):
        return "email and from are addresses, as you@example.org"
    if ("user" in receiver) != ("password_file" in receiver):
        return "user and password_file go together"
    if receiver.get("plain") and "user" in receiver:
        return "with `plain` the password would cross the network as it is: leave out one of them"
    return ""


def kind_of(receiver: AlarmReceiver) -> str:
    return next(kind for kind in _WORDS if kind in receiver)


def _url(receiver: AlarmReceiver) -> str:
    return receiver["webhook"] if "webhook" in receiver else receiver["ntfy"]


def goes_to(receiver: AlarmReceiver) -> GoesTo:
    """`kind`, `to` in words that give no topic or path away, `host` and `port` of who has to answer."""
    kind = kind_of(receiver)
    if kind == "email":
        host, _, at = receiver["smtp"].rpartition(":")
        return {"kind": kind, "to": f"{receiver['email']} by {host}", "host": host.strip("[]"), "port": int(at)}
    url = urlsplit(_url(receiver))
    port = url.port or (443 if url.scheme == "https" else 80)
    return {"kind": kind, "to": f"{url.scheme}://{url.netloc}/...", "host": url.hostname or "", "port": port}


def secret_files(receivers: Sequence[AlarmReceiver]) -> dict[str, Path]:
    """name on the node -> the owner's file on the machine that deploys."""
    found = {}
    for number, each in enumerate(receivers):
        if path := each.get("token_file") or each.get("password_file"):
            found[f"alarm-{number}"] = Path(os.path.expanduser(path))
    return found


def secret_text(file: Path) -> str:
    """What is in one of them. Raises OSError."""
    return file.read_text().strip()


def check_alarms(receivers: Sequence[AlarmReceiver]) -> Iterator[Finding]:
    """What speaks against the files with secrets."""
    for file in secret_files(receivers).values():
        remedy = f"write the secret alone into it, and: chmod 600 {file}"
        try:
            if not file.is_file():
                yield Finding("knob", f"alarms: {file} is not there", remedy)
            elif file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                yield Finding("knob", f"alarms: {file} can be read by others", remedy)
            elif len(secret_text(file).splitlines()) != 1:
                yield Finding("knob", f"alarms: {file} has to have one line", remedy)
        except (OSError, ValueError):
            yield Finding("knob", f"alarms: {file} can't be read", remedy)


def receiver_config(receivers: Sequence[AlarmReceiver], secrets: str) -> Json:
    """One receiver of Alertmanager's, which sends to all; `secrets`: the folder in which it finds its secrets."""
    found: Json = {"name": "owner"}
    for number, each in enumerate(receivers):
        kind, secret = kind_of(each), f"{secrets}/alarm-{number}"
        if kind == "email":
            found.setdefault("email_configs", []).append(_mail(each, secret))
            continue
        url = _url(each)
        if kind == "ntfy":
            url += ("&" if urlsplit(url).query else "?") + urlencode(_NTFY)
        hook: Json = {"url": url, "send_resolved": True}
        if "token_file" in each:
            hook["http_config"] = {"authorization": {"credentials_file": secret}}
        found.setdefault("webhook_configs", []).append(hook)
    return found


def _mail(receiver: AlarmReceiver, secret: str) -> Json:
    port = int(receiver["smtp"].rpartition(":")[2])
    mail = {
        "to": receiver["email"],
        "from": receiver["from"],
        "smarthost": receiver["smtp"],
        # It asks for STARTTLS. Over a connection that is TLS from its first byte no server offers that, and the
        # Alertmanager of Debian 12 and of Ubuntu 24.04 would send nothing.
        "require_tls": port != _TLS_PORT and not receiver.get("plain", False),
        "send_resolved": True,
        "headers": {"Subject": _SUBJECT},
        "html": "",
        "text": _TEXT,
    }
    if "user" in receiver:
        mail |= {"auth_username": receiver["user"], "auth_password_file": secret}
    return mail
