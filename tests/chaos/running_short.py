"""Disks that are full, and memory that somebody else takes."""

from __future__ import annotations

from tests.chaos.acts import Act, sh
from tests.chaos.deploying import changed_recipe
from tests.chaos.scene import Scene
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.settings import LabNode


def full(node: LabNode, folder: str) -> Act:
    """The disk of a folder is full: a small one with its content is mounted over it, and filled."""

    def act(_scene: Scene) -> None:
        on(
            node,
            f"cp -a {folder} /run/content && kib=$(du -sk /run/content | cut -f 1) && "
            f"mount -t tmpfs -o size=$((kib * 5 / 4 + 512))k,mode=755 full {folder} && "
            f"cp -a /run/content/. {folder} && rm -r /run/content && "
            f"{{ dd if=/dev/zero of={folder}/ballast bs=4k 2>/dev/null || true; }}",
        )

    return act


def room_again(node: LabNode, folder: str) -> Act:
    """The folder is as it was before, without what was removed meanwhile."""
    files = f"(cd {folder} && find . | sort)"
    gone = f"{files} | comm -23 - /run/there | sed 's|^|{folder}/|' | xargs --no-run-if-empty rm -rf"
    return sh(node, f"{files} >/run/there; umount --lazy {folder}; {gone}; rm /run/there")


def deploy_on_a_full_disk(node: LabNode, folder: str, said: str) -> Act:
    """A deploy of another recipe, with this folder's disk full, says so; what serves is not touched."""

    def act(scene: Scene) -> None:
        full(node, folder)(scene)
        refused = scene.deploy(recipe=str(changed_recipe()))
        assert refused.code == 1, "a deploy passed on a full disk"
        assert said in refused.text, refused.text[-3000:]
        left = on(node, f"find {folder} -name '*.part' -o -name '*.tandem-*'")
        assert left == "", left

    return act


#: Takes memory until little is available, and holds it for a moment.
HOG = """import mmap, re, time
held, end = [], time.time() + 400
def left():
    return int(re.search(r"MemAvailable: *([0-9]+)", open("/proc/meminfo").read()).group(1)) // 1024
while left() > 900 and time.time() < end:
    held.append(mmap.mmap(-1, 48 << 20))
    held[-1].madvise(mmap.MADV_HUGEPAGE)
    held[-1].write(bytes(48 << 20))
time.sleep(3)
"""


def memory_hog(scene: Scene) -> None:
    """Take memory until the guard's floor is reached.

    The nodes share this machine's memory: in replicas the head's guard looks away meanwhile.
    """
    node = HEAD if scene.topology == "solo" else WORKER
    if scene.topology != "solo":
        on(HEAD, "systemctl stop tandem-guard")
    since = on(node, "date '+%F %T'").strip()
    try:
        on(node, f"cat >/run/hog.py <<'END'\n{HOG}END\npython3 /run/hog.py && rm /run/hog.py")
    finally:
        on(HEAD, "systemctl start tandem-guard")
    told = on(node, f"journalctl --unit tandem-guard --since '{since}' --no-pager --output=cat")
    assert "the engine's container is killed" in told, f"the guard did nothing: {told}"
