"""The node programs that need no node."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyinfra.connectors.util import write_stdin

from operations.node.door import keys
from operations.node.image import archive, content_id
from operations.node.look import files
from operations.node.monitoring import exported
from operations.node.network import links
from operations.node.secret import secrets
from operations.node.unit import brief, services
from operations.paths import PROXY
from operations.runner import remote
from tests.node.shipped import FILES
from tests.support.waiting import until


def test_a_secret_is_told_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("sk-1\n")
    assert secrets.hash_of(path) == hashlib.sha256(b"sk-1\n").hexdigest()
    assert secrets.hash_of(tmp_path / "none") == ""


def test_where_an_exporter_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "exporter.json"
    monkeypatch.setattr(exported, "SETTINGS", settings)
    assert exported.main() == {"address": ""}
    settings.write_text('{"address": "192.168.177.76", "port": 8020}')
    assert exported.main() == {"address": "192.168.177.76"}


def test_files_by_content_and_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/stray").write_text("")
    found = files.main([str(tmp_path / "a"), str(tmp_path / "none")], [str(tmp_path / "folder")], contents=True)
    assert set(found) == {str(tmp_path / "a"), str(tmp_path / "folder/stray")}
    assert found[str(tmp_path / "a")]["text"] == "text"


def image(**changes: Any) -> dict[str, Any]:
    config = {"Env": ["A=1"], "Cmd": None, "Entrypoint": ["run"]}
    return {"Id": "1", "Architecture": "arm64", "Config": config, "RootFS": {"Layers": ["sha256:1"]}} | changes


def test_content_is_equal_where_the_image_id_is_not() -> None:
    assert content_id.content_id(image(Id="2", Config={"Env": ["A=1"], "Cmd": [], "Entrypoint": ["run"]})) == (
        content_id.content_id(image())
    )


@pytest.mark.parametrize(
    "changes", [{"RootFS": {"Layers": ["sha256:2"]}}, {"Architecture": "amd64"}, {"Config": {"Env": ["A=2"]}}]
)
def test_another_content_is_another(changes: dict[str, Any]) -> None:
    assert content_id.content_id(image(**changes)) != content_id.content_id(image())


@contextmanager
def waiting(folder: Path, *arguments: str) -> Iterator[int]:
    """A real process of a script that waits, as systemd starts a unit's ready.sh; gives its pid."""
    script = folder / "ready.sh"
    script.write_text("#!/bin/sh\nread line\n")
    script.chmod(0o755)
    with running(str(script), *arguments) as pid:
        yield pid


@contextmanager
def running(*argv: str) -> Iterator[int]:
    """A real process that waits for its standard input; gives its pid, once its command line can be read."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        until(Path(f"/proc/{process.pid}/cmdline").read_bytes, 20)
        yield process.pid
        process.kill()


def told(
    monkeypatch: pytest.MonkeyPatch,
    unit: dict[str, str],
    containers: dict[str, dict[str, str] | None],
    name: str = "tandem-engine",
    *others: str,
) -> Any:
    """What is said of these units when stand-ins for systemd and Docker say this; `containers`: name -> labels."""
    found: list[dict[str, Any]] = [
        {"Name": f"/{name}", "Image": "sha256:1", "Config": {"Labels": labels, "Image": "engine:1"}}
        for name, labels in containers.items()
    ]

    def output(*argv: str) -> str:
        if argv[0] == "systemctl":
            return "".join(f"{key}={value}\n" for key, value in unit.items())
        return "".join(f"{name}\t{(labels or {}).get('tandem.spec', '')}\n" for name, labels in containers.items())

    monkeypatch.setattr(services, "output", output)
    monkeypatch.setattr(
        services, "docker_inspect", lambda _, *names: [each for each in found if each["Name"][1:] in names]
    )
    return services.main([name, *others])


def test_a_unit_that_waits_says_what_it_was_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with waiting(tmp_path, "5pec") as pid:
        unit = {"ActiveState": "activating", "UnitFileState": "enabled", "MainPID": "0", "ControlPID": str(pid)}
        assert told(monkeypatch, unit, {})["units"]["tandem-engine"]["spec"] == "5pec"
        # What an earlier start has left behind is not what waits now.
        left = told(monkeypatch, unit, {"tandem-engine": {"tandem.spec": "older"}})["units"]["tandem-engine"]
        assert left["spec"] == "5pec" and "image" not in left
    with waiting(tmp_path) as pid:
        assert told(monkeypatch, unit | {"ControlPID": str(pid)}, {})["units"]["tandem-engine"]["spec"] == ""


def test_the_proxy_s_model_is_the_one_in_its_file_and_in_an_older_one_s_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "PROXY_MODEL", str(tmp_path / "model"))
    unit, labels = (
        {"ActiveState": "active", "UnitFileState": "enabled"},
        {"tandem.spec": "5pec", "tandem.model": "older"},
    )
    assert told(monkeypatch, unit, {PROXY: labels}, PROXY)["units"][PROXY]["model"] == "older"
    (tmp_path / "model").write_text("tiny\n")
    assert told(monkeypatch, unit, {PROXY: {"tandem.spec": "5pec"}}, PROXY)["units"][PROXY]["model"] == "tiny"


@pytest.mark.parametrize(
    ("mark", "asks"),
    [('{"met": false, "asks": "7"}', "7"), ('{"met": true}', None), ("{", None), ("[]", None), (None, None)],
)
def test_a_rank_that_waits_for_its_turn_to_load_is_seen_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str | None, asks: str | None
) -> None:
    monkeypatch.setattr(brief, "run_folder", lambda unit: str(tmp_path))
    monkeypatch.setattr(brief, "output", lambda *_: "")
    monkeypatch.setattr(brief, "unit_states", lambda units: {each: {"ActiveState": "active"} for each in units})
    if mark is not None:
        (tmp_path / "meeting.json").write_text(mark)
    assert brief.main("tandem-engine-a")["state"].get("asks") == asks


def test_a_unit_between_two_starts_was_started_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = {"ActiveState": "activating", "UnitFileState": "enabled", "MainPID": "0", "ControlPID": "0"}
    assert "spec" not in told(monkeypatch, unit, {})["units"]["tandem-engine"]


@pytest.mark.parametrize(
    "argv",
    [
        ["docker", "run", "--name", "tandem-engine", "--label", "tandem.spec=5pec", "engine:1", "/tandem/meet.py", "x"],
        ["/usr/bin/python3", "/etc/tandem/guard/guard.py", "5pec"],
    ],
    ids=["docker", "program"],
)
def test_a_process_says_what_it_was_started_from(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is a container, and where there is none."""
    with running("sh", "-c", "read line; exit", *argv) as pid:
        unit = {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": str(pid), "ControlPID": "0"}
        assert told(monkeypatch, unit, {})["units"]["tandem-engine"]["spec"] == "5pec"


def test_a_container_of_the_owner_s_is_no_stray_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": "0", "ControlPID": "0"}
    containers: dict[str, dict[str, str] | None] = {
        "tandem-engine": {"tandem.spec": "5pec"},
        "tandem-proxy": None,
        "tandem-old": {"tandem.spec": "0ld"},
        "tandem-bicycle": {"for": "two"},
        "tandem": None,
    }
    found = told(monkeypatch, unit, containers, "tandem-engine", "tandem-proxy")
    assert found["strays"] == ["tandem-old", "tandem-proxy"]


def test_a_login_over_ipv6_has_an_ipv4_address_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(name: str, *addresses: str) -> dict[str, Any]:
        infos = [{"family": "inet6" if ":" in local else "inet", "local": local} for local in addresses]
        return {"ifname": name, "addr_info": infos}

    # A stand-in for `ip`: the same link-local address may be on two interfaces.
    found = [link("lo", "127.0.0.1", "::1"), link("eth0", "fe80::1", "10.0.0.11"), link("eth1", "fe80::1", "fd00::1")]
    monkeypatch.setattr(links, "output", lambda *_: json.dumps([*found, {}]))
    assert links.ipv4_beside("fe80::1%eth0") == "10.0.0.11"
    assert links.ipv4_beside("fe80::1%eth1") == "fe80::1%eth1"
    assert links.ipv4_beside("fe80::1") == "10.0.0.11"
    assert links.ipv4_beside("10.0.0.12") == "10.0.0.12"
    assert links.ipv4_beside("") == ""


def save(path: Path, members: dict[str, Any]) -> str:
    with tarfile.open(path, "w") as out:
        for name, value in members.items():
            content = json.dumps(value).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    return str(path)


def test_an_archive_is_judged_without_loading_it(tmp_path: Path) -> None:
    manifest = [{"Config": "config.json", "RepoTags": ["engine:1"]}]
    good = save(tmp_path / "good.tar", {"manifest.json": manifest, "config.json": {"architecture": "arm64"}})
    assert archive.problem(good, "engine:1", "aarch64") == ""
    assert "is for arm64, this node is amd64" in archive.problem(good, "engine:1", "x86_64")
    assert "holds engine:1, not engine:2" in archive.problem(good, "engine:2", "aarch64")
    other = save(tmp_path / "other.tar", {"readme": "hello"})
    assert "is no image archive" in archive.problem(other, "engine:1", "aarch64")
    (tmp_path / "text.tar").write_text("hello")
    assert "is no image archive" in archive.problem(str(tmp_path / "text.tar"), "engine:1", "aarch64")
    assert "is not there" in archive.problem(str(tmp_path / "none.tar"), "engine:1", "aarch64")


def test_rails_with_their_rdma_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake sysfs: no machine here has RDMA. It holds what the program reads of a DGX Spark's."""
    for name, rdma in (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0")):
        device = tmp_path / "devices" / name
        (device / "infiniband" / rdma).mkdir(parents=True)
        driver = tmp_path / "drivers/mlx5_core"
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(driver)
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "device").symlink_to(device)
        (tmp_path / "net" / name / "carrier").write_text("1\n")
    for name in ("enP7s7", "wlP9s9", "docker0", "enp3s0f0np0", "enp1s0f1np1"):
        (tmp_path / "net" / name).mkdir(parents=True)
    # A virtual machine's, with an RDMA device made over it in software; nobody's hangs on another one.
    virtual = tmp_path / "devices/virtual"
    virtual.mkdir()
    (tmp_path / "drivers/virtio_net").mkdir()
    (virtual / "driver").symlink_to(tmp_path / "drivers/virtio_net")
    (tmp_path / "net/enp1s0f1np1/device").symlink_to(virtual)
    for rdma, parent in (("rocep1s0f1", "enp1s0f1np1"), ("rxe0", "enP7s7")):
        (tmp_path / "infiniband" / rdma).mkdir(parents=True)
        (tmp_path / "infiniband" / rdma / "parent").write_text(f"{parent}\n")
    monkeypatch.setattr(links, "INFINIBAND", tmp_path / "infiniband")
    other = tmp_path / "drivers/bnxt_en"
    other.mkdir()
    (tmp_path / "devices/other").mkdir()
    (tmp_path / "devices/other/driver").symlink_to(other)
    (tmp_path / "net/enp3s0f0np0/device").symlink_to(tmp_path / "devices/other")
    monkeypatch.setattr(links, "NET", tmp_path / "net")
    monkeypatch.setattr(links, "output", lambda *_: "[]")
    found = links.links()
    assert {name: link["rdma"] for name, link in found.items()} == {
        "enp1s0f0np0": "rocep1s0f0",
        "enP2p1s0f0np0": "roceP2p1s0f0",
        "enp1s0f1np1": "rocep1s0f1",
    }


def test_what_is_deployed_is_read_from_what_lies_there(tmp_path: Path) -> None:
    run = tmp_path / "run.sh"
    run.write_text(
        "exec docker run --label tandem.recipe=x --label tandem.topology=replicas --gpus all tandem/engine:1\n"
    )
    assert services.deployed(run) == "replicas"
    assert services.deployed(tmp_path / "none") == ""


def test_a_program_reads_what_is_handed_to_it_behind_the_programs() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("operations/__init__.py", "")
        made.writestr("operations/node/__init__.py", "")
        made.writestr(
            "operations/node/echo.py", "import sys\ndef main(**said): return {**said, 'read': sys.stdin.read()}"
        )
    programs, text = base64.b64encode(buffer.getvalue()).decode(), '{\n "a": 1\n}\n'
    run = remote.command("echo", {"word": "it's"}).get_raw_value()
    done = subprocess.run(run, shell=True, input=f"{programs}\n{text}", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"word": "it's", "read": text}


def test_all_that_programs_import_is_sent_with_them(tmp_path: Path) -> None:
    sent = tmp_path / "sent.zip"
    sent.write_bytes(base64.b64decode(remote.programs()))
    names = [name.removesuffix(".py").replace("/", ".") for name in zipfile.ZipFile(sent).namelist()]
    assert "operations.node.look.survey" in names and len(names) > 50
    code = f"import importlib, sys; sys.path.insert(0, {str(sent)!r}); [*map(importlib.import_module, {names!r})]"
    # Isolated, and without the packages that the tests have.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_parts_of_two_programs_never_share_a_name() -> None:
    """They import each other by name: in one process, as here, the other program's would be found."""
    counted = Counter(file.stem for file in FILES.glob("*/*.py"))
    assert [name for name, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("stdin", ["[]", "[]\n", ""])
def test_pyinfra_sends_what_is_handed_as_it_is(stdin: str) -> None:
    buffer = io.BytesIO()
    buffer.close = lambda: None  # type: ignore[method-assign]
    write_stdin(remote._asked(stdin, keys.main, (), {"take": True})["_stdin"], buffer)
    ended = stdin if stdin.endswith("\n") or not stdin else f"{stdin}\n"
    assert buffer.getvalue().decode() == str.__str__(remote.programs()) + ended


def test_what_is_handed_to_a_program_is_shown_by_no_log() -> None:
    sent = remote._asked("hashes of keys\n", keys.main, (), {"take": True})["_stdin"]
    assert str.__str__(sent) == f"{str.__str__(remote.programs())}hashes of keys\n"
    assert f"{sent}" == "(programs)"
