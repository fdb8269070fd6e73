"""`tandem models` on a node: a store of ten models, what each verb leaves of it byte for byte, and what it says.

The programs run as on a node; systemd is a double, and folders are the test's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import marks, store
from operations.node.unit import disks as node_disks
from operations.node.unit import everything, served, services, take_away
from operations.plan import disks
from operations.plan.config.refusal import Refusal
from operations.plan.disks import Thing
from operations.plan.history import record
from operations.plan.wanted import wanted
from tests.deploy.fake import planned
from tests.node.ten_models import CONFIG, KB, A, B, Node, shard
from tests.plan.samples import knob_data

DECLARED = wanted(knob_data())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def seen(node: Node) -> list[Thing]:
    return disks.things(DECLARED, {"spark-1": node_disks.main(str(node.store))})


def of(node: Node, *words: str) -> list[Thing]:
    return disks.named(words, seen(node), DECLARED, lambda _: [])


def prunable(node: Node) -> list[Thing]:
    return [each for each in seen(node) if not each.stays]


def take(node: Node, gone: Sequence[Thing]) -> None:
    """Removes, and holds what is said to be freed against the disk, before and after."""
    before, promised = node.used(), disks.freed(gone, seen(node))
    told = take_away.main(str(node.store), [each.picked for each in gone])
    assert told == {"freed": promised, "problems": []}
    assert before - node.used() == promised


def less(tree: dict[str, Any], *beginnings: str) -> dict[str, Any]:
    return {name: content for name, content in tree.items() if not name.startswith(beginnings)}


def test_all_of_it_is_listed_with_its_bytes_and_why_it_stays(node: Node) -> None:
    found = {each.title: each for each in seen(node)}
    sizes = {title: each.size for title, each in found.items()}
    two = len(CONFIG) + len(shard("t", 20 * KB))
    assert sizes == {
        f"org/base {A[:12]}": len(CONFIG) + len(shard("b", 40 * KB)),
        f"org/broken {A[:12]}": len(CONFIG) + len(shard("x", 13 * KB)) - 1,
        "org/cut (left over)": 8 * KB,
        f"org/fine {A[:12]}": len(CONFIG) + len(shard("f", 7 * KB)) + len(shard("b", 40 * KB)),
        f"org/owners {A[:12]}": len(CONFIG) + len(shard("o", 17 * KB)),
        f"org/plain {A[:12]}": len(CONFIG) + len(shard("p", 11 * KB)),
        f"org/serving {A[:12]}": len(CONFIG) + len(shard("y", 19 * KB)),
        f"org/share-a {A[:12]}": len(CONFIG) + len(shard("s", 30 * KB)),
        f"org/share-b {A[:12]}": len(CONFIG) + len(shard("s", 30 * KB)),
        f"org/two {A[:12]}": two + len(shard("u", 3 * KB)),
        f"org/two {B[:12]}": two + len(shard("v", 5 * KB)),
        "kernels 0123456789ab": 9 * KB,
        "kernels ba9876543210": 4 * KB,
    }
    assert disks.freed(list(found.values()), list(found.values())) == node.used()
    stay = {title: each.stays for title, each in found.items() if each.stays}
    assert stay == {
        f"org/owners {A[:12]}": ("it is not known to be of Tandem's fetching: by its name it goes",),
        f"org/serving {A[:12]}": ("tandem-engine uses it",),
        "kernels 0123456789ab": ("tandem-engine uses it",),
    }
    assert found[f"org/plain {A[:12]}"].state == "whole by structure"
    broken = found[f"org/broken {A[:12]}"].state
    assert broken.endswith("(and 1 more)") and "its header says" in broken
    assert "no revision has 2 of its files" in found["org/cut (left over)"].state


def test_a_revision_leaves_what_another_one_has(node: Node) -> None:
    tree = node.tree()
    take(node, of(node, f"org/two@{A[:4]}"))
    gone = next(name for name, content in tree.items() if content == shard("u", 3 * KB))
    assert node.tree() == less(tree, f"hub/models--org--two/snapshots/{A}", gone, f"proven/models--org--two/{A}.")
    # With the last one its folder goes, and the locks of whoever has fetched it.
    locks = node.store / ".locks/models--org--two"
    locks.mkdir(parents=True)
    take(node, of(node, "two"))
    assert node.tree() == less(tree, "hub/models--org--two/", "proven/models--org--two/")
    assert not (node.store / "models--org--two").exists() and not locks.exists()


@pytest.mark.parametrize(
    ("first", "second", "content"),
    [("fine", "base", shard("b", 40 * KB)), ("share-a", "share-b", shard("s", 30 * KB))],
    ids=["hard links", "the client's own store"],
)
def test_what_two_models_share_goes_with_the_second(node: Node, first: str, second: str, content: bytes) -> None:
    tree = node.tree()
    take(node, of(node, f"org/{first}"))
    assert node.tree() == less(tree, f"hub/models--org--{first}/", f"proven/models--org--{first}/")
    assert content in [(each.read_bytes()) for each in (node.store / f"models--org--{second}/snapshots/{A}").iterdir()]
    take(node, of(node, f"org/{second}"))
    assert content not in node.tree().values()


def test_a_link_of_the_owner_s_into_another_folder_is_not_followed(node: Node, tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(shard("m", KB))
    (node.store / f"models--org--plain/snapshots/{A}/mine.safetensors").symlink_to(mine)
    assert take_away.main(str(node.store), [each.picked for each in of(node, "plain")])["problems"] == []
    assert mine.read_bytes() == shard("m", KB) and not (node.store / "models--org--plain").exists()


def test_prune_takes_all_that_nobody_needs_and_nothing_else(node: Node) -> None:
    marks.put("models--org--base", A, marks.PINNED)
    tree = node.tree()
    take(node, prunable(node))
    kept = {
        name: content
        for name, content in tree.items()
        if any(each in name for each in ("org--base", "org--owners", "org--serving", "cache/0123456789ab"))
    }
    assert node.tree() == kept
    assert prunable(node) == []


def test_what_the_last_plans_and_the_declared_one_need_stays(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DECLARED.first.recipe.model
    node.add(files.repo, {"config.json": CONFIG, "model.safetensors": shard("d", KB)}, str(files.revision))
    other = record(planned(recipe="gpt-oss-120b-mxfp4", topology="cluster"), {})
    past = other["recipe"]["model"]
    node.add(past["repo"], {"config.json": CONFIG, "model.safetensors": shard("e", KB)}, past["revision"])
    # What a download of it has left is where the next one goes on.
    part = node.store / f"models--{past['repo'].replace('/', '--')}/blobs/{'3' * 64}.part"
    part.write_bytes(b"3")
    tag = other["images"][0].rpartition(":")[2]
    (node.kernels / tag).mkdir()
    served.main(keep=other)
    titles = {each.title: each for each in seen(node)}
    when = served.main()["plans"][0]["when"]
    past_title = f"{past['repo']} {past['revision'][:12]}"
    assert titles[past_title].who == (f"gpt-oss-120b-mxfp4 (plan of {when})",) and titles[past_title].last > 0
    assert titles[f"{files.repo} {str(files.revision)[:12]}"].who == (f"{DECLARED.first.title} (declared)",)
    going = {each.title for each in prunable(node)}
    assert not going & {past_title, f"{past['repo']} (left over)", f"kernels {tag}"}
    assert f"org/plain {A[:12]}" in going
    # The sixth plan behind it lets it go.
    for number in range(5):
        served.main(keep={**record(planned(topology="cluster"), {}), "id": str(number), "way": str(number)})
    assert past_title in {each.title for each in prunable(node)}


def test_what_is_in_use_is_refused_in_a_line_and_nothing_goes(node: Node) -> None:
    tree = node.tree()
    with pytest.raises(Refusal) as refused:
        disks.check_removal(of(node, "org/serving", "0123456789ab"))
    problems = [each.problem for each in refused.value.findings]
    assert problems == [
        f"org/serving {A[:12]} can't be removed: tandem-engine uses it",
        "kernels 0123456789ab can't be removed: tandem-engine uses it",
    ]
    assert "`tandem down` stops what serves" in refused.value.findings[0].remedy
    # Whoever is quicker than the question: it has begun to serve since.
    told = take_away.main(str(node.store), [each.picked for each in of(node, "org/serving", "0123456789ab")])
    assert told["freed"] == 0 and node.tree() == tree
    assert told["problems"][0] == f"models--org--serving/{A} stays: tandem-engine uses it by now"
    # A unit that is down has no claim but to be left alone unasked.
    node.running.clear()
    [thing] = of(node, "org/serving")
    assert thing.stays == ("tandem-engine is made for it",)
    disks.check_removal([thing])
    take(node, [thing])


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_what_a_program_of_the_owner_s_has_open_stays(node: Node, how: str) -> None:
    file = node.store / f"models--org--plain/snapshots/{A}/model.safetensors"
    wait = "print(flush=True); import sys; sys.stdin.read()"
    code = f"f = open({str(file)!r}, 'rb'); {wait}"
    if how == "mapped":
        # Python keeps a file of its own open beside a mapping.
        mapped = f"import mmap, os; f = open({str(file)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1)"
        code = f"{mapped}; os.closerange(3, 64); {wait}"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin and program.stdout and program.stdout.readline()
        [thing] = of(node, "plain")
        [why] = thing.busy
        assert why.endswith(f"(process {program.pid}) has a file of it open")
        with pytest.raises(Refusal, match="has a file of it open"):
            disks.check_removal([thing])
        told = take_away.main(str(node.store), [thing.picked])
        assert "has a file of it open" in told["problems"][0] and file.exists()
        # What other revisions keep anyway may be open.
        other = node.store / f"models--org--plain/snapshots/{B}"
        other.mkdir()
        (other / "model.safetensors").symlink_to(os.readlink(file))
        assert take_away.main(str(node.store), [thing.picked])["problems"] == []
        program.stdin.close()


def test_a_removal_that_is_broken_off_has_left_nothing_under_its_name(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, unlink, gone = node.tree(), Path.unlink, list[str]()

    def dies(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "blobs":
            if gone:
                raise KeyboardInterrupt
            gone.append(path.name)
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            take_away.main(str(node.store), [each.picked for each in of(node, "org/fine")])
    folder = node.store / "models--org--fine"
    assert len(gone) == 1 and store.snapshots(folder) == []
    # refs/main named it: the Hub's client would look for a folder that is not there.
    assert list((folder / "refs").iterdir()) == []
    [left] = of(node, "org/fine")
    assert "a removal was broken off" in left.state and not left.stays
    take(node, [left])
    assert node.tree() == less(tree, "hub/models--org--fine/", "proven/models--org--fine/")


def test_a_pin_holds_against_prune_and_rm_until_it_is_taken_off(node: Node) -> None:
    things = of(node, "org/plain", "org/broken")
    take_away.pin([each.picked for each in things], True)
    pinned = of(node, "org/plain", "org/broken")
    assert [each.stays for each in pinned] == [("it is pinned",)] * 2
    assert not {each.repo for each in prunable(node)} & {"org/plain", "org/broken"}
    with pytest.raises(Refusal, match=r"org/plain \w+ can't be removed: it is pinned"):
        disks.check_removal(pinned)
    take_away.pin([each.picked for each in pinned], False)
    assert {each.repo for each in prunable(node)} >= {"org/plain", "org/broken"}


def test_a_pin_makes_no_model_of_the_owner_s_tandem_s(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away.pin([each.picked for each in of(node, "org/owners")], True)
    monkeypatch.setattr(everything, "output", lambda *_, **__: "")
    told = [each["what"] for each in everything.main(str(node.store))["things"]]
    assert not [each for each in told if "org/owners" in each] and [each for each in told if "org/cut" in each]


@pytest.mark.parametrize(
    ("word", "problem", "remedy"),
    [
        ("org/plane", "no node that answers has `org/plane`", "did you mean `org/plain`?"),
        ("qqq", "no node that answers has `qqq`", "`tandem models` lists all"),
        ("org/two@ffff", "no revision of org/two here begins with `ffff`", f"there are: {A}, {B}"),
        ("org/two@a", "no revision of org/two here begins with `a`", f"there are: {A}, {B}"),
        ("org/two@", "`org/two@` names no revision", "write org/two@COMMIT, or org/two for all of them"),
        ("0123456789ac", "no node that answers has `0123456789ac`", "did you mean `0123456789ab`?"),
        ("plain", "`plain` may be any of org/plain, other/plain", "write ORG/NAME"),
        (DECLARED.first.title, f"nothing of `{DECLARED.first.title}` lies on a node that answers", "`tandem models`"),
    ],
)
def test_a_name_that_says_nothing_here_is_told(node: Node, word: str, problem: str, remedy: str) -> None:
    node.add("other/plain", {"config.json": CONFIG})
    with pytest.raises(Refusal) as refused:
        of(node, word)
    [finding] = refused.value.findings
    assert finding.problem == problem and finding.remedy.startswith(remedy)


def test_what_has_come_since_the_owner_looked_is_not_removed(node: Node) -> None:
    first = prunable(node)
    shown = {"spark-1": [each.key for each in first]}
    node.add("org/new", {"config.json": CONFIG})
    node.running.add("tandem-else")
    (node.etc / "else").mkdir()
    (node.etc / "else/start.sh").write_text(f"vllm serve /hub/models--org--plain/snapshots/{A}\n")
    keys = {each.key for each in disks.approved(prunable(node), shown)}
    assert keys == {each.key for each in first} - {f"models--org--plain@{A}"}


def test_who_has_fetched_a_model_is_known_from_its_first_byte_on(node: Node) -> None:
    fetched = node.store / f"models--org--new/snapshots/{A}"
    marks.begin(fetched)
    assert marks.since("models--org--new", A, marks.BROUGHT)
    # What was fetched by hand in its place later is the owner's.
    node.add("org/new", {"config.json": CONFIG}, brought=False)
    marks.end(fetched)
    assert marks.is_brought(fetched) and node_disks.main(str(node.store))
    (fetched / "more.json").write_text("{}")
    marks.begin(fetched)
    marks.end(fetched)
    assert marks.is_brought(fetched)
    blob = os.readlink(fetched / "config.json")
    for each in list(fetched.iterdir()):
        each.unlink()
    (fetched / "config.json").symlink_to(blob)
    assert not marks.is_brought(fetched)
    [thing] = of(node, "org/new")
    assert "it is not known to be of Tandem's fetching: by its name it goes" in thing.stays
    marks.begin(fetched)
    assert not marks.since("models--org--new", A, marks.BROUGHT)
    # One that lies here already is nobody's to take for his own.
    marks.begin(node.store / f"models--org--owners/snapshots/{A}")
    assert not marks.since("models--org--owners", A, marks.BROUGHT)


def test_a_broken_record_of_plans_hides_nothing(node: Node) -> None:
    served.PLACE.write_text(json.dumps([{"id": "1", "knobs": {}, "recipe": {"model": 3}, "images": ["x"]}]))
    assert len(seen(node)) == 13


def test_where_systemd_says_nothing_every_unit_counts_as_running(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.running.clear()
    monkeypatch.setattr(services, "unit_states", lambda units: {unit: {} for unit in units})
    [thing] = of(node, "org/serving")
    assert thing.busy == ("tandem-engine uses it",)
    told = take_away.main(str(node.store), [thing.picked])
    assert told["problems"] == [f"models--org--serving/{A} stays: tandem-engine uses it by now"]


def serve(*repos: str, names: Sequence[str] = ("",)) -> None:
    """A plan with these models serves; of several models each has its own engine."""
    recipes = [{"name": repo, "model": {"repo": repo, "revision": A}, "further_models": []} for repo in repos]
    several = {"recipes": dict(zip(names, recipes, strict=True))} if any(names) else {}
    plan = {"id": "1", "knobs": {}, "recipe": recipes[0], "images": ["tandem/engine:ba9876543210"], **several}
    served.PLACE.write_text(json.dumps([plan]))


def test_what_the_last_plan_serves_stays_behind_a_deploy_that_was_broken_off(node: Node) -> None:
    """The scripts name the next model already; the engine still has the one before."""
    serve("org/plain")
    with pytest.raises(Refusal, match=r"org/plain \w+ can't be removed: tandem-engine uses it"):
        disks.check_removal(of(node, "org/plain"))
    told = take_away.main(str(node.store), [each.picked for each in of(node, "org/plain")])
    assert told["problems"] == [f"models--org--plain/{A} stays: tandem-engine uses it by now"]
    node.running.clear()
    disks.check_removal(of(node, "org/plain"))
    # Of several models one may be down.
    serve("org/plain", "org/two", names=("coder", "writer"))
    node.running.add("tandem-engine-coder")
    assert of(node, "org/plain")[0].serves and not of(node, "org/two")[0].serves


def test_what_a_container_s_processes_name_is_in_use(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker is a double: its containers can't run here."""
    monkeypatch.setattr(node_disks, "own_containers", lambda: ["c0ffee"])
    container = {"Id": "c0ffee", "Name": "/tandem-engine-old", "Config": {"Image": "tandem/engine:ba9876543210"}}
    monkeypatch.setattr(node_disks, "docker_inspect", lambda _, *names: [container] if names == ("c0ffee",) else [])
    monkeypatch.setattr(node_disks, "_PROCESSES", node.place / "proc")
    for number, group in (("1", "docker-c0ffee.scope"), ("2", "user.slice")):
        process = node.place / "proc" / number
        process.mkdir(parents=True)
        (process / "cgroup").write_text(f"0::/system.slice/{group}\n")
        repo = "plain" if number == "1" else "two"
        (process / "cmdline").write_text(f"vllm\0serve\0/hub/models--org--{repo}/snapshots/{A}\0--port\0")
    assert of(node, "org/plain")[0].busy == ("tandem-engine-old uses it",) and not of(node, "org/two")[0].busy
    assert of(node, "ba9876543210")[0].busy == ("tandem-engine-old uses it",)


def gone(node: Node, word: str, store_: str = "") -> None:
    """Removed without a word of complaint."""
    picked = [each.picked for each in of(node, word)]
    assert take_away.main(store_ or str(node.store), picked)["problems"] == []


def test_a_reference_that_is_no_text_is_no_obstacle(node: Node) -> None:
    (node.store / "models--org--plain/refs/odd").write_bytes(b"\xff\xfe")
    gone(node, "org/plain")
    assert not (node.store / "models--org--plain").exists()


def test_a_program_s_fault_of_one_model_is_told_and_the_others_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    forget = marks.forget

    def fails(folder: str, revision: str) -> None:
        if folder == "models--org--plain":
            raise ValueError("no text")
        forget(folder, revision)

    monkeypatch.setattr(marks, "forget", fails)
    told = take_away.main(str(node.store), [each.picked for each in of(node, "org/plain", "org/broken")])
    assert told["problems"] == [f"models--org--plain/{A} stays: no text"]
    assert not (node.store / "models--org--broken").exists()


@pytest.mark.parametrize("is_left_over", [False, True])
def test_a_snapshot_that_is_a_link_goes_without_what_it_leads_to(
    node: Node, tmp_path: Path, is_left_over: bool
) -> None:
    repo, mine = node.store / "models--org--plain", tmp_path / "mine"
    mine.mkdir()
    (mine / "model.safetensors").write_bytes(shard("m", KB))
    link = repo / (f"{store.GONE}{B}" if is_left_over else f"snapshots/{B}")
    link.symlink_to(mine)
    if is_left_over:
        store.remove_left_over(repo)
    else:
        gone(node, f"org/plain@{B}")
    assert not os.path.lexists(link) and list(mine.iterdir()) and len(store.snapshots(repo)) == 1
    assert store.left_over(repo) == {}


def test_a_store_that_is_named_by_a_way_around_is_emptied_of_the_same(node: Node) -> None:
    (node.place / "link").symlink_to(node.store)
    gone(node, "org/plain", f"{node.store}/../hub")
    gone(node, "org/broken", str(node.place / "link"))
    left = {each.name for each in store.repositories(node.store)}
    assert not left & {"models--org--plain", "models--org--broken"}


def test_what_another_repository_s_snapshot_links_to_stays(node: Node) -> None:
    blob = (node.store / f"models--org--plain/snapshots/{A}/model.safetensors").resolve()
    snapshot = node.add("org/linked", {"config.json": CONFIG})
    link = snapshot / "model.safetensors"
    link.symlink_to(os.path.relpath(blob, snapshot))
    take(node, of(node, "org/plain"))
    assert link.read_bytes() == shard("p", 11 * KB)
    # It is no remainder: somebody has it.
    assert not [each for each in seen(node) if each.title == "org/plain (left over)"]
