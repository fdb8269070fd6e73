"""Where a mod of a foreign recipe is found, and what is said of one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.plan.recipes import repositories
from operations.plan.recipes.formats import FOLDER, load_file, mod_places
from operations.plan.recipes.recipe import Recipe
from operations.verbs import recipes

EUGR = 'recipe_version: "1"\nname: x\nmodel: org/model\ncontainer: vllm-node\ncommand: vllm serve org/model\n'
SPARKRUN = 'recipe_version: "2"\nmodel: org/model\nruntime: vllm\ncontainer: image\n'
REGISTRY = (
    "registries:\n- {name: one, recipes: a/recipes, mods: a/mods}\n- {name: two, subpath: b, mods_subpath: b-mods}\n"
)


@pytest.fixture(autouse=True)
def nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def mod(folder: Path, text: str = "true\n") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text(text)
    return folder


def read(file: Path, text: str) -> Recipe:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return load_file(file)


def errors(recipe: Recipe) -> list[str]:
    return [str(each) for each in recipe.remarks if each.error]


@pytest.mark.parametrize("mark", [".git", "recipes and mods"])
@pytest.mark.parametrize("below", ["recipes", "recipes/3x/deep/er"])
def test_eugr_s_mods_are_taken_from_the_root_however_deep_the_recipe_lies(
    tmp_path: Path, mark: str, below: str
) -> None:
    root = tmp_path / "repository"
    here = mod(root / "mods/fix")
    if mark == ".git":
        (root / ".git").mkdir()
    found = read(root / below / "r.yaml", f"{EUGR}mods: [mods/fix]\n")
    assert found.mods == (str(here),) and not errors(found)


def test_the_root_s_mod_comes_before_one_beside_the_recipe_for_eugr_and_after_it_for_sparkrun(tmp_path: Path) -> None:
    root = tmp_path / "r"
    (root / ".git").mkdir(parents=True)
    above, beside = mod(root / "mods/fix"), mod(root / "recipes/mods/fix")
    assert read(root / "recipes/e.yaml", f"{EUGR}mods: [mods/fix]\n").mods == (str(above),)
    assert read(root / "recipes/s.yaml", f"{SPARKRUN}mods: [mods/fix]\n").mods == (str(beside),)


@pytest.mark.parametrize("name", ["fix", "mods/fix", "./mods/fix", "mods/fix/"])
def test_sparkrun_s_mods_are_beside_the_recipe_with_or_without_their_folder(tmp_path: Path, name: str) -> None:
    here = mod(tmp_path / "mods/fix")
    assert read(tmp_path / "r.yaml", f"{SPARKRUN}mods: ['{name}']\n").mods == (str(here),)


def test_a_registry_says_where_its_mods_are(tmp_path: Path) -> None:
    (tmp_path / ".sparkrun").mkdir()
    (tmp_path / ".sparkrun/registry.yaml").write_text(REGISTRY)
    one, two = mod(tmp_path / "a/mods/fix", "a\n"), mod(tmp_path / "b-mods/fix", "b\n")
    assert read(tmp_path / "a/recipes/sub/r.yaml", f"{SPARKRUN}mods: [fix]\n").mods == (str(one),)
    assert read(tmp_path / "b/r.yaml", f"{SPARKRUN}mods: [fix]\n").mods == (str(two),)
    assert read(tmp_path / "b/s.yaml", f"{SPARKRUN}mods: ['@one/mods/fix']\n").mods == (str(one),)
    told = errors(read(tmp_path / "b/t.yaml", f"{SPARKRUN}mods: ['@three/fix']\n"))
    assert told == [
        f"the mod `@three/fix` is not here (looked in {tmp_path}); "
        "fetch the registry @three with `tandem recipes --fetch URL@COMMIT`"
    ]


@pytest.mark.parametrize("text", ["", "registries: 5", "a: [", "registries: [{name: x, mods: 5}]"])
def test_a_registry_that_can_t_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".sparkrun").mkdir()
    (tmp_path / ".sparkrun/registry.yaml").write_text(text)
    here = mod(tmp_path / "mods/fix")
    assert read(tmp_path / "r.yaml", f"{SPARKRUN}mods: [fix]\n").mods == (str(here),)


def test_elsewhere_in_the_repository_and_never_one_of_two_that_differ(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    here = mod(tmp_path / "bundles/x/mods/fix")
    assert read(tmp_path / "recipes/r.yaml", f"{EUGR}mods: [mods/fix]\n").mods == (str(here),)
    mod(tmp_path / "bundles/y/mods/fix")
    assert read(tmp_path / "recipes/r.yaml", f"{EUGR}mods: [mods/fix]\n").mods == (str(here),)
    mod(tmp_path / "bundles/z/mods/fix", "false\n")
    told = errors(read(tmp_path / "recipes/r.yaml", f"{EUGR}mods: [mods/fix]\n"))
    assert len(told) == 1 and "the mod `mods/fix` is in 3 places, which differ: " in told[0]


def test_a_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mod_places, "_FOLDERS", 3)
    (tmp_path / ".git").mkdir()
    for number in range(9):
        (tmp_path / f"a{number}").mkdir()
    mod(tmp_path / "z/y/fix")
    assert "is not here" in errors(read(tmp_path / "r.yaml", f"{EUGR}mods: [mods/fix]\n"))[0]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (f"{EUGR}mods: [mods/fix]\n", "https://github.com/eugr/spark-vllm-docker"),
        (f"{SPARKRUN}mods: [fix]\n", "https://github.com/spark-arena/eugr-recipes"),
        (f"{SPARKRUN}mods: ['@experimental/fix']\n", "https://github.com/spark-arena/recipe-registry"),
        (f"{SPARKRUN}runtime_config: {{mods: [fix]}}\n", "https://github.com/spark-arena/eugr-recipes"),
    ],
)
def test_one_that_is_missing_is_refused_with_where_it_goes_and_how_to_get_it(
    tmp_path: Path, text: str, url: str
) -> None:
    told = errors(read(tmp_path / "r.yaml", text))
    assert len(told) == 1 and f"fetch it: `tandem recipes --fetch {url}@COMMIT`" in told[0]
    assert f"put its folder (run.sh) into {tmp_path}/mods/fix" in told[0]


def test_make_recipes_refuses_it_and_takes_what_was_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(tmp_path / "in/r.yaml", f"{EUGR}mods: [mods/fix]\n")
    assert recipes.main(str(tmp_path / "in")) == 0
    assert "refused" in (told := capsys.readouterr().out) and "r: error: the mod `mods/fix` is not here" in told
    place = repositories.place(f"{repositories.EUGR}.git", "c" * 40)
    assert place.name == f"github.com-eugr-spark-vllm-docker@{'c' * 40}"
    mod(place.with_name(f".{place.name}.part") / "mods/fix")
    assert recipes.main(str(tmp_path / "in")) == 0
    assert "refused" in capsys.readouterr().out, "one that is on its way is none"
    mod(place / "mods/fix")
    assert recipes.main(str(tmp_path / "in")) == 0
    assert f"mod `mods/fix` (fetched: {place}/mods/fix); put into a derived image" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("''", "`mods` names '', which is no mod"),
        ("mods/", "`mods` names 'mods/', which is no mod"),
        ("7", "`mods` has 7, which is no name"),
        ("{a: b}", "`mods` has {'a': 'b'}, which is no name"),
        ("../../out/fix", "the mod `../../out/fix` leads out of "),
        ("mods/linked", "the mod `mods/linked` leads out of "),
        ("mods/packed.zip", "the mod `mods/packed.zip` is a zip file; unpack it into "),
        ("/nowhere/fix", "the mod `/nowhere/fix` is not here"),
    ],
)
def test_what_is_no_mod_gets_one_line(tmp_path: Path, entry: str, said: str) -> None:
    root = tmp_path / "r"
    (root / "mods").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "mods/packed.zip").write_bytes(b"PK")
    (root / "mods/linked").symlink_to(mod(tmp_path / "out/fix"))
    told = errors(read(root / "recipes/r.yaml", f"{EUGR}mods: [{entry}]\n"))
    assert len(told) == 1 and said in told[0]


def test_one_by_its_whole_path_may_lie_anywhere_and_twice_is_once(tmp_path: Path) -> None:
    here = mod(tmp_path / "anywhere/fix")
    found = read(tmp_path / "r/recipes/x.yaml", f"{EUGR}mods: [{here}, {here}]\n")
    assert found.mods == (str(here),) and not errors(found)


def test_a_mod_of_tandem_s_own_by_its_name(tmp_path: Path) -> None:
    assert read(tmp_path / "r.yaml", f"{EUGR}mods: [mods/sm121-b12x]\n").mods == ("sm121-b12x",)


def test_when_each_acts_is_a_field_of_the_recipe_and_said(tmp_path: Path) -> None:
    mod(tmp_path / "mods/patch", "sed -i s/a/b/ x.py\n")
    mod(tmp_path / "mods/beside", "nohup watcher &\n")
    mod(tmp_path / "mods/drop", "while true; do echo 3 > /proc/sys/vm/drop_caches; sleep 90; done &\n")
    mod(tmp_path / "mods/kernel", "sysctl -w vm.swappiness=1\n")
    mod(tmp_path / "mods/asks", '[ -n "$VLLM_X" ] || exit 1\n')
    names = "patch, beside, drop, kernel, asks"
    found = read(tmp_path / "r.yaml", f"{SPARKRUN}mods: [{names}]\nenv: {{VLLM_X: '1'}}\n")
    assert [Path(each).name for each in found.mods] == ["patch", "beside", "kernel", "asks"]
    assert found.start_mods == ("beside", "asks") and found.drop_caches_s == 90
    told = [str(each) for each in found.remarks]
    assert any("mod `patch` (beside the recipe); put into a derived image, once" in each for each in told)
    assert any(
        "the mod `beside` is run at each start: it leaves a process behind: `nohup watcher &`" in each for each in told
    )
    assert any("the mod `drop` acts on the node's kernel" in each and "every 90 s" in each for each in told)
    assert errors(found) == [
        "the mod `kernel` can't act here: it sets `sysctl -w vm.swappiness=`, which is the node's: set it there; "
        "take it out of `mods`"
    ]


def test_make_recipes_refuses_what_can_t_be_put_into_an_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mod(tmp_path / "in/mods/fix") / "out.py").symlink_to("/etc/hostname")
    read(tmp_path / "in/r.yaml", f"{SPARKRUN}mods: [fix]\n")
    own = (FOLDER / "lab-tiny-llama.yaml").read_text()
    (tmp_path / "in/own.yaml").write_text(f"{own}\nmods: [no-such]\n")
    assert recipes.main(str(tmp_path / "in")) == 0
    told = capsys.readouterr().out
    assert "r: error: the mod `" in told and "its out.py is a link to /etc/hostname" in told
    assert "own: error: the mod `no-such` is not here" in told and told.count("refused") == 2


SELF_NAMED = "registries: [{name: eugr, recipes: recipes, mods: mods}]\n"


def stored(url: str, registry: str = "") -> Path:
    """A repository as it was fetched."""
    place = repositories.place(url, "c" * 40)
    mod(place / "mods/fix", f"echo {url}\n")
    if registry:
        (place / ".sparkrun").mkdir()
        (place / ".sparkrun/registry.yaml").write_text(registry)
    return place


def test_what_a_fetched_repository_calls_itself_is_not_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    other = stored("https://example.org/a/b", SELF_NAMED)
    for name in ("fix", "@eugr/fix", "@theirs/fix", "@official/fix"):
        told = errors(read(tmp_path / "in/r.yaml", f"{SPARKRUN}mods: ['{name}']\n"))
        assert len(told) == 1 and f"the mod `{name}` is not here" in told[0]
    # By the owner's own name for it.
    repositories.write([repositories.Registry("theirs", "https://example.org/a/b", "c" * 40)])
    assert read(tmp_path / "in/r.yaml", f"{SPARKRUN}mods: ['@theirs/fix']\n").mods == (str(other / "mods/fix"),)
    # A recipe of the repository takes its own, whatever else is fetched.
    known = stored(repositories.KNOWN["eugr"], SELF_NAMED)
    assert read(other / "recipes/r.yaml", f"{SPARKRUN}mods: [fix]\n").mods == (str(other / "mods/fix"),)
    for name in ("fix", "@eugr/fix"):
        assert read(tmp_path / "in/r.yaml", f"{SPARKRUN}mods: ['{name}']\n").mods == (str(known / "mods/fix"),)


def test_a_link_in_a_fetched_repository_leads_nowhere_else(tmp_path: Path) -> None:
    place = repositories.place(repositories.EUGR, "c" * 40)
    (place / "mods").mkdir(parents=True)
    (place / "mods/fix").symlink_to(mod(tmp_path / "out/fix"))
    told = errors(read(tmp_path / "in/r.yaml", f"{EUGR}mods: [mods/fix]\n"))
    assert len(told) == 1 and f"the mod `mods/fix` leads out of {place}" in told[0]


def test_a_recipe_that_was_fetched_names_nothing_of_the_owner_s_machine(tmp_path: Path) -> None:
    here, place = mod(tmp_path / "anywhere/fix"), repositories.place("https://example.org/a/b", "c" * 40)
    for name in (str(here), f"mods/{here}"):
        told = errors(read(place / "r.yaml", f"{SPARKRUN}mods: ['{name}']\n"))
        assert len(told) == 1 and f"the mod `{name}` is named from `/` by a recipe that was fetched" in told[0]
