"""Renewing the list of known holes: from OSV's records in every shape that they come in, and from pip-audit's."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from operations.plan.advisories import advisory
from operations.plan.advisories.advisory import Advisory
from operations.verbs import renew_holes

NEW: dict[str, Any] = {
    "id": "GHSA-zzzz-zzzz-zzz2",
    "modified": "2026-12-01T00:00:00Z",
    "aliases": ["CVE-2099-00002"],
    "summary": "a new one",
    "details": "long",
    "severity": [
        {"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"},
        {"type": "CVSS_V4", "score": "CVSS:4.0/AV:N/AC:L/AT:N/PR:L/UI:N/VC:N/VI:N/VA:H/SC:N/SI:N/SA:N"},
    ],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "vLLM"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.40.0"}]}],
        }
    ],
    "references": [{"type": "WEB", "url": "https://example.org"}],
    "database_specific": {"severity": "CRITICAL", "cwe_ids": []},
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "holes"
    shutil.copytree(advisory.FOLDER, folder)
    return folder


def kept(folder: Path) -> dict[str, Any]:
    lines = (folder / advisory.ADVISORIES.name).read_text().splitlines()
    return {each["id"]: each for each in map(json.loads, lines)}


def source(place: Path, kind: str, record: dict[str, Any]) -> Path:
    text = json.dumps(record)
    if kind == "folder":
        (place / "vulns").mkdir()
        (place / "vulns/x.json").write_text(text)
        return place / "vulns"
    if kind == "zip":
        with zipfile.ZipFile(place / "all.zip", "w") as archive:
            archive.writestr("x.json", text)
        return place / "all.zip"
    file = place / f"x.{'jsonl' if kind == 'jsonl' else 'json'}"
    file.write_text({"query": json.dumps({"vulns": [record]}), "list": f"[{text}]"}.get(kind, text))
    return file


@pytest.mark.parametrize("kind", ["json", "jsonl", "list", "query", "folder", "zip"])
def test_a_new_record_is_added_in_every_shape_that_osv_gives(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    before = kept(data)
    assert renew_holes.main(str(source(tmp_path, kind, NEW)), str(data)) == 0
    said = capsys.readouterr().out
    assert "added: GHSA-zzzz-zzzz-zzz2" in said
    assert "each counts as reachable: GHSA-zzzz-zzzz-zzz2" in said
    now = kept(data)
    assert {name: now[name] for name in before} == before
    # The severest of its vectors; what is not used here is left out.
    assert now[NEW["id"]]["database_specific"] == {"severity": "CRITICAL", "cvss": 9.8}
    assert "details" not in now[NEW["id"]]
    assert str(tmp_path) in " ".join(json.loads((data / advisory.ABOUT.name).read_text())["sources"])


def test_other_packages_and_withdrawn_records_are_left_out(data: Path, tmp_path: Path) -> None:
    other = {**NEW, "affected": [{**NEW["affected"][0], "package": {"ecosystem": "npm", "name": "left-pad"}}]}
    withdrawn = {**NEW, "id": "GHSA-zzzz-zzzz-zzz3", "withdrawn": "2026-12-02T00:00:00Z"}
    file = tmp_path / "x.json"
    file.write_text(json.dumps([other, withdrawn]))
    before = kept(data)
    assert renew_holes.main(str(file), str(data)) == 0
    assert kept(data) == before


def test_a_record_under_another_of_its_names_renews_what_is_there(data: Path, tmp_path: Path) -> None:
    record = {**NEW, "id": "GHSA-94f4-hr76-p5j6", "aliases": ["CVE-2026-48746", "PYSEC-2026-226"]}
    before = kept(data)
    renew_holes.main(str(source(tmp_path, "json", record)), str(data))
    now = kept(data)
    assert set(now) == set(before)
    mine = Advisory(now["CVE-2026-48746"])
    # Our words for it stay, and with its name the judgement of its reach.
    assert mine.summary == before["CVE-2026-48746"]["summary"] and "PYSEC-2026-226" in mine.names
    assert mine.affects("vllm", "0.39.0") and mine.score == 9.8


def test_the_same_again_changes_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(source(tmp_path, "json", NEW))
    renew_holes.main(file, str(data))
    once = kept(data)
    capsys.readouterr()
    renew_holes.main(file, str(data))
    assert kept(data) == once and "added: none; changed: none" in capsys.readouterr().out


def test_pip_audits_report_is_taken_and_does_not_thin_what_is_known(data: Path, tmp_path: Path) -> None:
    vulnerabilities = [
        {
            "id": "PYSEC-2099-1",
            "fix_versions": ["1.200.0", "1.107.3"],
            "aliases": [],
            "description": "a hole\nand more",
        },
        {"id": "GHSA-4xpc-pv4p-pm3w", "fix_versions": ["1.84.0"], "aliases": ["CVE-2026-49468"], "description": "x"},
    ]
    report = {"dependencies": [{"name": "litellm", "version": "1.106.2", "vulns": vulnerabilities}], "fixes": []}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    before = kept(data)
    assert renew_holes.main(str(file), str(data)) == 0
    now = kept(data)
    assert now["CVE-2026-49468"] == before["CVE-2026-49468"]
    new = Advisory(now["PYSEC-2099-1"])
    assert new.affects("litellm", "1.106.2") and not new.affects("litellm", "1.107.3")
    assert new.fixed("litellm", "1.106.2") == "1.107.3" and new.summary == "a hole" and new.score is None


@pytest.mark.parametrize("content", ["", "no JSON", '{"affected": [{"package": {}}]}', "[1]", "{}", "[]"])
def test_what_is_neither_ends_in_one_line_and_changes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    before = {path: path.read_text() for path in data.iterdir()}
    assert renew_holes.main(str(file), str(data)) == 2
    assert capsys.readouterr().err.startswith(f"{file} ")
    assert renew_holes.main(str(tmp_path / "nowhere.json"), str(data)) == 2
    assert renew_holes.main("") == 2
    assert {path: path.read_text() for path in data.iterdir()} == before
