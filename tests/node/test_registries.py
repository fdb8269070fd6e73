"""`tandem recipes add` and `update`: repositories of recipes, each pinned at a commit. Git is the real one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.recipes import repositories
from operations.plan.recipes.repositories import fetched, listing, registries
from operations.verbs import recipes as shown
from operations.verbs import registries as verb
from tests.node.test_fetch_mods import git

RECIPE = """recipe_version: "2"
model: org/model
runtime: vllm
container: registry.example/image:1
command: vllm serve {model} --max-num-seqs 4
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO())


class Remote:
    """A bare repository, as a server has it, and a clone to change it by."""

    def __init__(self, folder: Path, name: str) -> None:
        self.bare, self.work = folder / f"{name}.git", folder / f"{name}-work"
        git(folder, "init", "--quiet", "--bare", "-b", "main", str(self.bare))
        git(folder, "clone", "--quiet", str(self.bare), str(self.work))
        git(self.work, "checkout", "--quiet", "-b", "main")
        self.url = f"file://{self.bare}"

    def commit(self, **files: str | None) -> str:
        """Files by name (`__` for `/`, `.yaml` behind it); None: it is taken away. Gives the commit."""
        for name, text in files.items():
            file = self.work / f"{name.replace('__', '/')}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink() if text is None else file.write_text(text)
        git(self.work, "add", "-A")
        git(self.work, "commit", "--quiet", "-m", "x")
        git(self.work, "push", "--quiet", "origin", "main")
        return git(self.work, "rev-parse", "HEAD")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path, "mine")


def said(capsys: pytest.CaptureFixture[str], code: int, wanted: int = 0) -> str:
    told = capsys.readouterr()
    assert code == wanted, told
    assert not wanted or (told.err.count("\n") == 1 and told.out == "")
    return told.err if wanted else told.out


def test_a_registry_is_pinned_and_found_by_name(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    commit = remote.commit(recipes__one=RECIPE, benchmarks__b="framework: x\nargs: {}\n")
    remote.commit(recipes__two=RECIPE)
    told = said(capsys, verb.add(f"{remote.url}@{commit}"))
    assert told.startswith(f"@mine is {remote.url} at {commit}, 1 recipes, in ")
    # Again is nothing new.
    said(capsys, verb.add(f"{remote.url}@{commit}"))
    assert [(each.name, each.commit) for each in registries()] == [("mine", commit)]
    one = said(capsys, shown.main("", "one"))
    file = fetched()[0] / "recipes/one.yaml"
    assert f"tandem init --model {file}" in one
    assert said(capsys, shown.main("", "@mine/recipes/one")) == one
    assert "one" in said(capsys, shown.main("@mine"))
    assert "no recipe is named `two`; `tandem recipes` lists them" in said(capsys, shown.main("", "two"), 2)
    assert "do you mean one of: @mine/recipes/one?" in said(capsys, shown.main("", "recipes/on"), 2)
    assert "`@other` is no registry here; added are: mine" in said(capsys, shown.main("@other"), 2)


def test_a_name_in_two_registries_is_not_guessed(
    remote: Remote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Remote(tmp_path, "other")
    for each in (remote, other):
        said(capsys, verb.add(f"{each.url}@{each.commit(recipes__one=RECIPE)}"))
    told = said(capsys, shown.main("", "one"), 2)
    assert "`one` is in 2 places; name one: @mine/recipes/one, @other/recipes/one" in told


def test_an_update_is_shown_recipe_by_recipe_and_taken_when_it_is_said(
    remote: Remote, capsys: pytest.CaptureFixture[str]
) -> None:
    first = remote.commit(same=RECIPE, gone=RECIPE, other=RECIPE, broken=RECIPE)
    said(capsys, verb.add(f"{remote.url}@{first}"))
    assert f"@mine: nothing new, {first}" in said(capsys, verb.update())
    changed = RECIPE.replace("seqs 4", "seqs 8 --enforce-eager").replace("image:1", "image:2")
    second = remote.commit(gone=None, other=changed, broken="model: [", new=RECIPE)
    lines = said(capsys, verb.update("mine")).splitlines()
    assert lines[0] == f"@mine: {first} -> {second}"
    assert lines[1:3] == ["  new: new", "  gone: gone"]
    assert lines[3].startswith("  changed: broken: refused: is not YAML")
    assert lines[4] == (
        "  changed: other: image registry.example/image:1 -> registry.example/image:2; "
        "max-num-seqs: --max-num-seqs 4 -> --max-num-seqs 8; enforce-eager: - -> --enforce-eager"
    )
    # Nobody was there to be asked.
    assert lines[5] == "@mine stays; `tandem recipes update mine --yes` takes it"
    assert registries()[0].commit == first and [each.name[-40:] for each in fetched()] == [first]
    said(capsys, verb.update(yes=True))
    assert registries()[0].commit == second and [each.name[-40:] for each in fetched()] == [second]


def test_what_a_mod_changes_is_a_recipe_s_change(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    mod = remote.work / "mods/fix/run.sh"
    mod.parent.mkdir(parents=True)
    mod.write_text("echo 1\n")
    said(capsys, verb.add(f"{remote.url}@{remote.commit(recipes__one=RECIPE + 'mods: [fix]')}"))
    mod.write_text("echo 2\n")
    remote.commit(x="a: 1\n")
    assert "  changed: recipes/one: mod fix\n" in said(capsys, verb.update())


def test_one_that_is_known_is_fetched_by_its_name(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"official", "community", "eugr"} < repositories.KNOWN.keys()
    monkeypatch.setitem(repositories.KNOWN, "eugr", remote.url)
    assert registries() == [] and fetched() == []
    commit = remote.commit(recipes__one=RECIPE)
    said(capsys, verb.add("eugr"))
    assert registries()[0] == repositories.Registry("eugr", remote.url, commit)


def test_what_can_t_be_added_is_told_in_a_line(
    remote: Remote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = remote.commit(one=RECIPE)
    assert "`nobody` is no registry; write https://" in said(capsys, verb.add("nobody"), 2)
    assert "is no public repository at a commit" in said(capsys, verb.add("git@github.com:x/y"), 2)
    assert "`main` is no commit of 40 hex digits" in said(capsys, verb.add(f"{remote.url}@main"), 2)
    assert "`a b` is no name for a registry" in said(capsys, verb.add(f"{remote.url}@{commit}", "a b"), 2)
    missing = said(capsys, verb.add(f"{remote.url}@{'0' * 40}"), 1)
    assert missing.startswith(f"{remote.url} has no commit {'0' * 40}; `git ls-remote")
    (tmp_path / "folder").mkdir()
    no_git = said(capsys, verb.add(f"file://{tmp_path}/folder@{commit}"), 1)
    assert (
        no_git == f"file://{tmp_path}/folder is no git repository, or is there no more; name the URL that it has now\n"
    )
    assert registries() == [] and fetched() == []


def test_a_name_is_one_registry_s(remote: Remote, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = remote.commit(one=RECIPE)
    second, other = remote.commit(two=RECIPE), Remote(tmp_path, "other")
    said(capsys, verb.add(f"{remote.url}@{first}"))
    told = said(capsys, verb.add(f"{remote.url}@{second}"), 2)
    assert (
        told
        == f"`mine` is a registry already: {remote.url}@{first}; `tandem recipes update mine` takes its newest commit\n"
    )
    told = said(capsys, verb.add(f"{other.url}@{other.commit(one=RECIPE)}", "mine"), 2)
    assert "give this one another name: `--as NAME`" in told
    assert "`x` is no registry here; added are: mine" in said(capsys, verb.update("x"), 2)


def test_a_registry_that_has_moved_is_told_and_stays(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no registry yet" in said(capsys, verb.update(), 2)
    commit = remote.commit(one=RECIPE)
    said(capsys, verb.add(f"{remote.url}@{commit}"))
    remote.bare.rename(remote.bare.with_name("elsewhere.git"))
    assert said(capsys, verb.update(), 1).startswith(f"{remote.url} is no git repository, or is there no more; name")
    assert registries()[0].commit == commit and "one" in said(capsys, shown.main("", "one"))


def test_a_list_that_can_t_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    listing().parent.mkdir(parents=True)
    listing().write_text("[{}]")
    assert "registries.json does not list registries" in said(capsys, verb.update(), 2)
    with pytest.raises(Refusal):
        fetched()


def test_a_mod_that_no_image_may_have_ends_no_update(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    """Links to a folder and to what never ends; a mod.yaml that is too deep, and one that is no text."""
    for name in ("folder", "endless", "deep", "bytes"):
        mod = remote.work / "mods" / name
        mod.mkdir(parents=True)
        (mod / "run.sh").write_text("true\n")
    (remote.work / "mods/folder/more").symlink_to("../..")
    (remote.work / "mods/endless/zero").symlink_to("/dev/zero")
    (remote.work / "mods/deep/mod.yaml").write_text("[" * 5000)
    (remote.work / "mods/bytes/mod.yaml").write_bytes(b"run: \xff\n")
    recipe = RECIPE + "mods: [folder, endless, deep, bytes]"
    said(capsys, verb.add(f"{remote.url}@{remote.commit(recipes__one=recipe)}"))
    remote.commit(recipes__two=RECIPE)
    assert "  new: recipes/two\n" in said(capsys, verb.update())
    judged = said(capsys, shown.main("@mine"))
    for fault in (
        "its more is a link to ../..",
        "its zero is a link to /dev/zero",
        "more than 20 deep",
        "is not UTF-8",
    ):
        assert fault in judged
