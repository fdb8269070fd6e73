"""A run's folder: what was cut is refused in one line, what a killed run leaves is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.folder import mend, read, write_run
from bench.measuring import append
from bench.records import Folder, Run
from operations.plan.config.refusal import Refusal
from tests.benchmark.test_figures import request, step


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Two whole steps of two requests each."""
    found = Folder(tmp_path / "run")
    run = Run(
        profile="quick",
        seed=1,
        repeats=2,
        users=[2],
        recipe="r",
        served_name="s",
        model="m",
        revision="",
        began=0.0,
    )
    write_run(found, run)
    for repeat in (0, 1):
        name = f"replicas/proxy/2/{repeat}"
        with found.requests.open("a") as file:
            file.writelines(f"{request(number, step=name).model_dump_json()}\n" for number in (0, 1))
        append(found, step(name=name, repeat=repeat))
    return found


def test_what_was_written_is_read(folder: Folder) -> None:
    run, steps, requests = read(folder.path)
    assert run.profile == "quick" and [each.repeat for each in steps] == [0, 1]
    assert [len(each) for each in requests.values()] == [2, 2]


def test_a_run_that_was_killed_is_read_and_mended(folder: Folder) -> None:
    whole = folder.requests.read_text()
    half = request(0, step="replicas/proxy/2/2").model_dump_json()
    folder.requests.write_text(whole + half + "\n" + half[:40])
    folder.steps.write_text(folder.steps.read_text() + '{"name": "repl')
    assert len(read(folder.path)[1]) == 2
    assert mend(folder) == {"replicas/proxy/2/0", "replicas/proxy/2/1"}
    assert folder.requests.read_text().count("\n") == 4 and folder.requests.read_text().endswith("}\n")


def _without_last_request(folder: Folder) -> None:
    folder.requests.write_text("".join(folder.requests.read_text().splitlines(keepends=True)[:-1]))


def _half_a_line(folder: Folder) -> None:
    lines = folder.requests.read_text().splitlines(keepends=True)
    folder.requests.write_text("".join([lines[0], lines[1][:50] + "\n", *lines[2:]]))


def _no_requests(folder: Folder) -> None:
    folder.requests.unlink()


def _half_a_run(folder: Folder) -> None:
    folder.run.write_text(folder.run.read_text()[:60])


def _unknown_word(folder: Folder) -> None:
    folder.steps.write_text(folder.steps.read_text().replace('"users"', '"user"'))


def _twice(folder: Folder) -> None:
    folder.steps.write_text(folder.steps.read_text() * 2)


@pytest.mark.parametrize("cut", [_without_last_request, _half_a_line, _no_requests, _half_a_run, _unknown_word, _twice])
def test_a_file_that_was_cut_is_refused(folder: Folder, cut: object) -> None:
    assert callable(cut)
    cut(folder)
    with pytest.raises(Refusal, match="was cut or changed"):
        read(folder.path)


def test_what_is_no_folder_of_a_run_is_refused(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"no run\.json"):
        read(tmp_path)
    with pytest.raises(Refusal, match="no such folder"):
        read(tmp_path / "nothing")
    folder.run.write_text(folder.run.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(Refusal, match="its format is 9"):
        read(folder.path)
