"""Faults in, of and by a deploy: broken off, rolled out, going back, a netplan file that cuts management off."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

from operations.paths import NETPLAN
from operations.runner import remote
from tests.chaos.acts import Act, power
from tests.chaos.scene import Scene
from tests.lab import cluster
from tests.lab.cluster import HEAD, WORKER, lab, on
from tests.lab.node import boot_id, ssh_argv
from tests.lab.settings import LINKS, LabNode


def deploy_killed_at(operation: str, after_s: float = 0.0, *before: Act) -> Act:
    """Begin a deploy of another recipe, and kill it where it begins an operation."""

    def act(scene: Scene) -> None:
        for each in before:
            each(scene)
        _kill_at(cluster.begin(**scene.knobs, recipe=changed_recipe()), operation, after_s)

    return act


def switch_killed_at(operation: str, after_s: float, topology: str) -> Act:
    """The same with a deploy of another topology."""

    def act(scene: Scene) -> None:
        _kill_at(cluster.begin(**{**scene.knobs, "topology": topology}), operation, after_s)

    return act


def _kill_at(process: subprocess.Popen[str], operation: str, after_s: float) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if operation in line and "Starting operation" in line:
            break
    time.sleep(after_s)
    process.kill()
    process.communicate()


def management_cut_in_a_deploy(scene: Scene) -> None:
    """The link of the worker is gone for 20 s while a deploy is at work."""
    process = cluster.begin(**scene.knobs, recipe=changed_recipe())
    assert process.stderr is not None
    for line in process.stderr:
        if "Engine | files" in line:
            break
    lab("cut", "spark-2:mgmt")
    time.sleep(20)
    lab("heal", "spark-2:mgmt")
    process.kill()
    process.communicate()


def netplan_unconfirmed(scene: Scene) -> None:
    """Management is cut off by a netplan file, and the worker loses power before the guard's minute is over."""
    before = on(WORKER, f"cat {NETPLAN}")
    cut_management_off(WORKER, before)
    power(WORKER)(scene)
    assert on(WORKER, f"cat {NETPLAN}") == before
    left = on(WORKER, "ls /etc/systemd/system/tandem-netplan-undo.service /etc/netplan/*.tandem-old", check=False)
    assert left == "", left


def cut_management_off(node: LabNode, netplan: str) -> None:
    """Apply the file with its management link off, as a deploy applies one, and never come back to confirm it."""
    harmful = netplan + f"    {LINKS['mgmt']}:\n      activation-mode: off\n"
    on(node, f"cat > {NETPLAN}.pending <<'END'\n{harmful}END\nchmod 600 {NETPLAN}.pending")
    apply = remote.command("network.rails:apply", {"paths": [NETPLAN]}).get_raw_value()
    # The session hangs or breaks with the link: both are what shall happen.
    with contextlib.suppress(subprocess.TimeoutExpired):
        argv = [*ssh_argv(node), f"sudo -n {apply}"]
        subprocess.run(argv, input=remote.programs().encode(), timeout=15, check=False)
    assert not boot_id(node), "management was not lost: nothing is proven"


def rolled(scene: Scene) -> None:
    """A deploy of another recipe, to its end."""
    done = scene.deploy(recipe=str(changed_recipe()))
    assert done.code == 0, done.text[-3000:]


def never_loads(scene: Scene) -> None:
    """A deploy of a recipe whose engine ends at each start: until it is not started any more."""
    recipe = str(broken_recipe())
    failed = scene.deploy(recipe=recipe)
    assert failed.code == 1, "a recipe that can't load was deployed"
    words = " ".join(f"{name}={value}" for name, value in {**scene.knobs, "recipe": recipe}.items())
    offered = f"`tandem rollback --inventory {cluster.INVENTORY} {words}` goes back to "
    assert offered in failed.text, failed.text[-2000:]
    start = time.monotonic()
    while "failed" not in on(HEAD, "systemctl is-active tandem-engine", check=False):
        assert time.monotonic() - start < 900, "it is started again and again"
        time.sleep(2)
    # systemd counts the start that it has refused as well.
    starts = int(on(HEAD, "systemctl show tandem-engine --property=NRestarts --value"))
    assert starts <= 6, f"{starts} starts"
    assert on(HEAD, "docker ps --all --quiet --filter name=tandem-engine") == "", "its container is still there"
    argv = ["make", "-s", "status", f"INVENTORY={cluster.INVENTORY}"]
    told = subprocess.run(argv, cwd=cluster.ROOT, capture_output=True, text=True, check=True).stdout
    assert f"it stays down after {starts} starts: " in told, told
    assert "Error" in told.split("it stays down after")[1].splitlines()[0], told


def rolled_back(scene: Scene) -> None:
    """A deploy of a recipe whose engine ends at each start, with rollback=auto."""
    failed = scene.deploy(recipe=str(broken_recipe()), rollback="auto")
    assert failed.code == 1, "a recipe that can't load was deployed"
    assert "rollback=auto: going back to" in failed.text, failed.text[-2000:]
    assert "serves again" in failed.text, failed.text[-2000:]


def changed_recipe() -> Path:
    """The lab's recipe with one flag changed: every engine has to be started anew."""
    return _recipe_with("max-num-seqs: 8", "max-num-seqs: 9")


def broken_recipe() -> Path:
    """More context than the model has: the lint knows flags and their choices, not every model's limits."""
    return _recipe_with("max-model-len: 131072", "max-model-len: 9999999")


def _recipe_with(old: str, new: str) -> Path:
    shipped = (cluster.ROOT / "files/recipes/lab-tiny-llama.yaml").read_text()
    path = Path(f"/tmp/tandem-chaos/{new.split(': ')[1]}/lab-tiny-llama.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shipped.replace(old, new))
    return path
