"""The knobs, read strictly: what an owner's group data says, and defaults for the rest (knob_fields.py)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError, field_validator, model_validator

from operations.plan.config.alarms import read_alarms
from operations.plan.config.knob_fields import Executor as Executor
from operations.plan.config.knob_fields import KnobFields
from operations.plan.config.knob_fields import Topology as Topology
from operations.plan.config.refusal import Finding, Refusal, nearest, typed
from operations.wire import Json

#: Host data that is not a knob: the connector's own keys, and what a node may say of itself.
NODE_DATA = ("fabric_interfaces",)
CONNECTOR_PREFIXES = ("ssh_", "fake_", "_")

#: Ports counted from `cluster_ports`; Ray's workers follow from +100 (one rank needs about 20).
PORT_OFFSETS = {
    "meeting": 0,
    "master": 1,
    "gcs": 2,
    "node_manager": 3,
    "object_manager": 4,
    "agent_grpc": 5,
    "agent_listen": 6,
    "runtime_env": 7,
    "metrics": 8,
    "ray_client": 9,
    "autoscaler_metrics": 10,
    "dashboard_metrics": 11,
    # What nodes tell each other of their addresses in the office, in datagrams.
    "office": 12,
    # Where a node is asked to load a model on demand (files/ondemand/ondemand.py).
    "on_demand": 13,
    # The copy to the first worker listens one further on, that to the second two, and so on.
    "share": 30,
}

#: How many there are of them: each model of several has its own.
PORTS_EACH = 300

#: Models that a plan has at the most: as many as there are ports between `engine_port` and the next knob's.
MODELS = 8

#: Of a model among several, what it may say in the place of the general knobs.
OF_A_MODEL = (
    *("recipe", "topology", "executor", "pipeline_parallel", "nodes_per_replica", "canary_deadline", "loader"),
    *("engine_image_from", "model_from", "model_revision", "model_revisions"),
)
#: And what it may say beside them: the nodes that it lies on, GiB of a node's memory, its name for clients, whether it
#: is loaded when somebody asks for it, and minutes without a request after which it is unloaded.
BESIDE = ("nodes", "memory_gib", "served_name", "on_demand", "idle_minutes")

#: A host's name, or its IPv4 address.
_HOST = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
#: How advisories are called.
_ADVISORY = r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}"


class Knobs(KnobFields):
    """What the owner wants, checked."""

    @field_validator("fabric_subnets")
    @classmethod
    def _subnets(cls, text: str) -> str:
        try:
            subnets = [IPv4Network(part.strip()) for part in text.split(",")]
        except ValueError:
            wanted = f"two networks, one for each rail, as in {KnobFields().fabric_subnets}"
            raise ValueError(f"expected {wanted} (10.1.0.5/24 is an address in one)") from None
        if len(subnets) != 2:
            raise ValueError("expected two subnets, one for each rail, separated by a comma")
        if subnets[0].overlaps(subnets[1]):
            raise ValueError("both rails in one subnet: the kernel would send everything over one of them")
        if any(subnet.prefixlen > 28 for subnet in subnets):
            raise ValueError("a rail's subnet needs room for every node: /28 or wider")
        return text

    @field_validator("models", mode="before")
    @classmethod
    def _by_name(cls, models: Any) -> Any:
        if not are_models(models):
            raise ValueError('expected models by their names: {"chat": {"recipe": ...}}')
        return models

    @field_validator("proxy_bind")
    @classmethod
    def _bind(cls, text: str) -> str:
        if text not in ("loopback", "management", "all") and not _is_ipv4(text):
            raise ValueError("expected loopback, management, all, or an IPv4 address of the head")
        return text

    @field_validator("tls")
    @classmethod
    def _certificate(cls, text: str) -> str:
        if not re.fullmatch(r"off|self|files:[^,]+,[^,]+", text):
            raise ValueError("expected off, self, or files:CERTIFICATE,KEY")
        return text

    @field_validator("proxy_port", mode="before")
    @classmethod
    def _unprivileged(cls, port: object) -> object:
        if str(port).isdecimal() and 1 <= int(str(port)) < 1024:
            raise ValueError("ports below 1024 are root's, and the proxy runs without it: expected 1024 to 65535")
        return port

    @field_validator("proxy_address")
    @classmethod
    def _address(cls, text: str) -> str:
        if text and not _is_ipv4(text):
            raise ValueError("expected an IPv4 address of your network that nobody has, or an empty text")
        return text

    @field_validator("min_free_kbytes")
    @classmethod
    def _min_free(cls, kib: int) -> int:
        # Below, the kernel chooses more itself; above, nothing that fits a Spark starts any more.
        if kib and not 65_536 <= kib <= 8_388_608:
            raise ValueError("expected 0 (as the kernel has it), or 65536 to 8388608 kB")
        return kib

    @field_validator("engine_image_from", "proxy_image_from")
    @classmethod
    def _image_from(cls, text: str) -> str:
        kind, _, rest = text.partition(":")
        if kind not in ("registry", "archive", "build") or (kind == "registry") == bool(rest):
            raise ValueError("expected `registry`, `archive:/path/on/the/head.tar` or `build:files/images/NAME`")
        return text

    @field_validator("model_from")
    @classmethod
    def _model_from(cls, text: str) -> str:
        if text != "hub" and not text.startswith("/"):
            raise ValueError("expected `hub`, or an absolute path on the head")
        return text

    @field_validator("model_revision")
    @classmethod
    def _commit(cls, text: str) -> str:
        if text and not re.fullmatch(r"[0-9a-f]{40}", text):
            raise ValueError("expected a commit of the model's repository, 40 hexadecimal digits, or nothing")
        return text

    @field_validator("model_revisions")
    @classmethod
    def _commits(cls, revisions: dict[str, str]) -> dict[str, str]:
        for repo, text in revisions.items():
            if not re.fullmatch(r"[0-9a-f]{40}", text):
                raise ValueError(f"expected a commit of {repo}, 40 hexadecimal digits, not {text!r}")
        return revisions

    @field_validator("model_store")
    @classmethod
    def _store(cls, text: str) -> str:
        if not text.startswith(("/", "~/")):
            raise ValueError("expected an absolute path, or one that begins with ~/ (the login's home)")
        return text

    @field_validator("accept_risk", mode="before")
    @classmethod
    def _accepted(cls, names: Any) -> Any:
        if (words := _listed(names, _ADVISORY)) is None:
            raise ValueError('expected names of advisories: ["CVE-2026-12345", "GHSA-abcd-1234-wxyz"]')
        return words

    @field_validator("media_domains", mode="before")
    @classmethod
    def _hosts(cls, names: Any) -> Any:
        if (words := _listed(names, _HOST)) is None:
            raise ValueError('expected names of hosts, in small letters: ["images.example.org"]')
        return words

    @field_validator("alarms", mode="before")
    @classmethod
    def _receivers(cls, receivers: Any) -> Any:
        return read_alarms(receivers)

    @model_validator(mode="after")
    def _apart(self) -> Knobs:
        if self.proxy_address and self.proxy_address == self.proxy_bind:
            raise ValueError(
                f"proxy_address and proxy_bind are both {self.proxy_bind}: the first moves between nodes, the second "
                "is a node's own (loopback, management, all)"
            )
        if self.proxy_port == self.engine_port:
            raise ValueError(f"proxy_port and engine_port are both {self.proxy_port}: on the head both listen")
        taken = range(self.cluster_ports, self.cluster_ports + PORTS_EACH)
        single = ("proxy_port", "engine_port", "monitoring_port", "prometheus_port", "alertmanager_port")
        for first, second in combinations(single, 2):
            if getattr(self, first) == getattr(self, second):
                raise ValueError(f"{first} and {second} are both {getattr(self, first)}")
        for name in single:
            if getattr(self, name) in taken:
                raise ValueError(f"{name} lies within the 300 ports that begin at cluster_ports={self.cluster_ports}")
        if self.models:
            self._room_for_models()
        return self

    @property
    def stages(self) -> int:
        """Stages of an engine's pipeline: an engine on one node has one, also in the place of a cluster."""
        return self.pipeline_parallel if self.topology == "cluster" or self.in_groups else 1

    @property
    def in_groups(self) -> bool:
        """Whether each of several engines is a cluster over a group of nodes."""
        return self.topology == "replicas" and self.nodes_per_replica > 1

    @property
    def of_an_engine(self) -> Knobs:
        """As one engine sees them: of replicas in groups each is a cluster, which no node leaves to serve alone."""
        if not self.in_groups:
            return self
        return self.model_copy(update={"topology": "cluster", "nodes_per_replica": 1, "fallback": "off"})

    def _room_for_models(self) -> None:
        """Each of several has an engine's port and ranks' ports of its own, behind those that the knobs name."""
        engines = range(self.engine_port, self.engine_port + MODELS)
        ranks = range(self.cluster_ports, self.cluster_ports + MODELS * PORTS_EACH)
        single = ("proxy_port", "monitoring_port", "prometheus_port", "alertmanager_port")
        for name in single:
            if (port := getattr(self, name)) in engines or port in ranks:
                what = f"{MODELS} ports of engines that begin at engine_port={self.engine_port}"
                if port in ranks:
                    what = f"{MODELS * PORTS_EACH} ports that begin at cluster_ports={self.cluster_ports}"
                raise ValueError(f"{name}={port} lies within the {what}: several models have so many")
        if set(engines) & set(ranks):
            raise ValueError(
                f"the {MODELS} ports of engines that begin at engine_port={self.engine_port} reach into the "
                f"{MODELS * PORTS_EACH} ports that begin at cluster_ports={self.cluster_ports}: several models have so "
                "many"
            )
        if engines[-1] > 65535:
            raise ValueError(f"engine_port={self.engine_port}: {MODELS} ports for models end above 65535")
        if ranks[-1] > 65535:
            raise ValueError(
                f"cluster_ports={self.cluster_ports}: {MODELS * PORTS_EACH} ports for models end above 65535"
            )

    @property
    def falls_back(self) -> bool:
        """Whether a cluster that lacks a node goes on as one engine."""
        return self.topology == "cluster" and self.fallback == "solo"

    @property
    def runs_prometheus(self) -> bool:
        """Whether the head keeps what the nodes say, and sends alarms."""
        return self.monitoring == "prometheus"

    @property
    def tls_files(self) -> tuple[str, ...]:
        """The owner's certificate and key, on the machine that deploys; empty: there are none."""
        kind, _, files = self.tls.partition(":")
        return tuple(os.path.expanduser(each.strip()) for each in files.split(",")) if kind == "files" else ()

    @property
    def rail_subnets(self) -> tuple[IPv4Network, IPv4Network]:
        """One IPv4 subnet for each rail."""
        first, second = self.fabric_subnets.split(",")
        return IPv4Network(first.strip()), IPv4Network(second.strip())

    def port(self, name: str) -> int:
        """A port of the ranks' own traffic, by its name in PORT_OFFSETS."""
        return self.cluster_ports + PORT_OFFSETS[name]

    @property
    def ray_worker_ports(self) -> range:
        """Where Ray's workers listen."""
        return range(self.cluster_ports + 100, self.cluster_ports + PORTS_EACH)

    def copy_port(self, index: int) -> int:
        """Where others serve the copies of the node with this index (the head mostly), and where that node serves other
        workers.
        """
        return self.port("share") + index


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _listed(names: Any, pattern: str) -> tuple[Any, ...] | None:
    """A list of words, which --data has as words with a comma between them; None: not each fits the pattern."""
    words = tuple(word.strip() for word in names.split(",") if word.strip()) if isinstance(names, str) else names
    fits = isinstance(words, list | tuple) and all(re.fullmatch(pattern, str(word)) for word in words)
    return tuple(words) if fits else None


def are_models(value: Any) -> bool:
    """Whether a value has the form of the knob `models`: names of models, each with a mapping of texts to values."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(words, dict) and all(isinstance(word, str) for word in words)
        for name, words in value.items()
    )


#: Knobs of older versions, with what is to be done about them.
_GONE = dict.fromkeys(
    ("litellm_ports", "page_port"), "take it out: what stands behind the proxy listens on sockets now, on no port"
)


def _all_of(names: Iterable[str]) -> str:
    return f"the knobs are: {', '.join(names)}"


def choices(knob: str) -> tuple[str, ...]:
    """The words that it may be; empty: it is no choice among words."""
    annotation = Knobs.model_fields[knob].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def read_knobs(data: Mapping[str, Any], of: str = "") -> Knobs:
    """Knobs from a host's data; raises Refusal that names every knob that is wrong and its remedy.

    `of`: what stands before a knob's name where it is typed for one model: `models.coder.`.
    """
    names = tuple(Knobs.model_fields)
    findings = [
        Finding("knob", f"no knob is named `{key}`", _GONE.get(key) or nearest(key, names, _all_of(names)))
        for key in data
        if key not in names and key not in NODE_DATA and not key.startswith(CONNECTOR_PREFIXES)
    ]
    try:
        knobs = Knobs(**{key: value for key, value in data.items() if key in names})
    except ValidationError as error:
        findings += [_finding(dict(each), of) for each in error.errors()]
    if findings:
        raise Refusal(*findings)
    return knobs


def _finding(error: Json, of: str) -> Finding:
    if not error["loc"]:
        return Finding("knob", error["msg"].removeprefix("Value error, "), "give one of them another value")
    name, value = str(error["loc"][0]), error["input"]
    words = choices(name)
    expected = f"expected one of: {', '.join(words)}" if words else error["msg"].removeprefix("Value error, ")
    # Where the knob is no text, quotes tell that this is one.
    is_text = isinstance(value, str) and isinstance(_default(name), str)
    # An owner may have written a password there, which belongs into a file.
    said = name if name == "alarms" else typed(name, value) if is_text else f"{name}={value!r}"
    return Finding("knob", f"{said}: {expected}", _remedy(name, value, of))


def _default(name: str) -> Any:
    return Knobs.model_fields[name].get_default(call_default_factory=True)


def is_typed(knob: str) -> bool:
    """Whether it can be said behind a verb: it is one word, or words with commas between them."""
    return knob != "alarms" and not isinstance(_default(knob), dict)


def _remedy(name: str, wrong: Any, of: str) -> str:
    """Both ways in which an owner says a knob; those of no single word are said in the file alone."""
    in_file = f"change `{name}` in group_data/all.py"
    default = _default(name)
    if not is_typed(name):
        return in_file
    words = choices(name)
    # Who writes False, or `false`, means off.
    near = ["off"] if wrong is False and "off" in words else get_close_matches(str(wrong), words, n=1)
    # A text's default would be another wish than the one that is misspelt.
    otherwise = "VALUE" if isinstance(default, str) else default or "VALUE"
    return f"{in_file}, or for one run `tandem apply {of}{name}={near[0] if near else otherwise}`"
