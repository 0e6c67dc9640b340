"""A trace on the page becomes a test: the command, and the files to download."""

import io
import json
import re
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from build.site import Site, text_of
from tracegrade.assemble.settings import TracesSettings
from tracegrade.cli import main
from tracegrade.history.promote import download
from tracegrade.model.errors import NotPossible
from tracegrade.pipeline.rule_tests import run_tests
from waiting import WITHIN_S

TRACE = f"a1{1:030x}"
TESTS = f"- {{description: d, trace: {TRACE}.json, expect: {{a: fail}}}}\n"


def _failed_rule(shop: Site) -> str:
    page = shop.get(f"/traces/{TRACE}").text
    return page.partition(f"/traces/{TRACE}/tests/")[2].partition(".zip")[0]


def test_a_judged_trace_shows_the_command(shop: Site) -> None:
    rule = _failed_rule(shop)
    assert f"tracegrade promote {TRACE} --rule {rule}" in text_of(shop.get(f"/traces/{TRACE}").text)


def test_the_files_of_the_download_are_a_test_that_holds(shop: Site, tmp_path: Path) -> None:
    rule_id = _failed_rule(shop)
    with urlopen(f"{shop.url}/traces/{TRACE}/tests/{rule_id}.zip", timeout=WITHIN_S) as answer:
        assert answer.headers["Content-Type"] == "application/zip"
        packed = answer.read()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.namelist() == [f"{rule_id}/traces/{TRACE}.json", f"{rule_id}/tests.yaml"]
        archive.extractall(tmp_path)
    (rule,) = [one for one in shop.rules.rules if one.id == rule_id]
    (result,) = [one for one in run_tests(rule, tmp_path / rule_id / "rule.yaml", TracesSettings()) if one.test]
    assert result.failure == ""


def test_a_session_becomes_a_test_of_all_its_traces(shop: Site, tmp_path: Path) -> None:
    (session,) = set(re.findall(r'href="/sessions/([0-9a-f]{32})"', shop.get("/sessions").text))
    html = shop.get(f"/sessions/{session}").text
    rule_id = "conversation-orders-too-often"
    assert f"tracegrade promote {session} --rule {rule_id}" in text_of(html)
    address = f"/traces/{session}/tests/{rule_id}.zip"
    assert f'href="{address}"' in html
    with (
        urlopen(f"{shop.url}{address}", timeout=WITHIN_S) as answer,
        zipfile.ZipFile(io.BytesIO(answer.read())) as archive,
    ):
        assert len([name for name in archive.namelist() if "/traces/" in name]) == 2
        archive.extractall(tmp_path)
    (rule,) = [one for one in shop.rules.rules if one.id == rule_id]
    (result,) = [one for one in run_tests(rule, tmp_path / rule_id / "rule.yaml", TracesSettings()) if one.test]
    assert result.failure == ""


def test_what_cannot_be_a_test_is_said(shop: Site) -> None:
    assert shop.get(f"/traces/{TRACE}/tests/none.zip").status == 404
    assert shop.get(f"/traces/{'0' * 32}/tests/{_failed_rule(shop)}.zip").status == 404
    assert shop.get(f"/traces/a1{6:030x}/tests/refund-without-lookup.zip").status == 409


def _download(shop: Site, rule_id: str, *trace_ids: str) -> bytes:
    query = "&".join(f"trace_id={trace_id}" for trace_id in trace_ids)
    with urlopen(f"{shop.url}/rules/{rule_id}/tests.zip?{query}", timeout=WITHIN_S) as answer:
        content: bytes = answer.read()
    return content


def _rule_beside(shop: Site, folder: Path, rule_id: str) -> Path:
    """A copy of the rule that tests can be written beside."""
    place = folder / "rules" / rule_id
    place.mkdir(parents=True)
    (place / "rule.yaml").write_bytes(Path(shop.rules.paths[rule_id]).read_bytes())
    return place


def _promote(folder: Path, file: Path, *more: str) -> Result:
    command = ("promote", "--from", str(file), "--rules", str(folder / "rules"), *more)
    return CliRunner().invoke(main, [*command, "--data-dir", str(folder / "elsewhere")])


def test_chosen_traces_are_downloaded_and_added_beside_the_rule_once(shop: Site, tmp_path: Path) -> None:
    rule_id = _failed_rule(shop)
    found = json.loads(shop.get(f"/api/v1/results?rule={rule_id}&limit=100").text)["items"]
    other = next(item["trace_id"] for item in found if item["trace_id"] != TRACE)
    file = tmp_path / "tests.zip"
    file.write_bytes(_download(shop, rule_id, TRACE, other))
    place = _rule_beside(shop, tmp_path, rule_id)
    tried = _promote(tmp_path, file, "--dry-run")
    assert tried.exit_code == 0, tried.output
    assert "would write" in tried.output
    assert not (place / "tests.yaml").exists()
    done = _promote(tmp_path, file)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (place / "traces").iterdir()} == {f"{TRACE}.json", f"{other}.json"}
    before = (place / "tests.yaml").read_text()
    assert before.count("- description:") == 2
    again = _promote(tmp_path, file, "--format", "json")
    assert [json.loads(line)["status"] for line in again.stdout.splitlines()] == ["there", "there"]
    assert (place / "tests.yaml").read_text() == before


def test_a_download_without_traces_or_of_too_many_is_refused(shop: Site) -> None:
    rule_id = _failed_rule(shop)
    assert shop.get(f"/rules/{rule_id}/tests.zip").status == 400
    many = "&".join(f"trace_id={number:032x}" for number in range(51))
    answer = shop.get(f"/rules/{rule_id}/tests.zip?{many}")
    assert (answer.status, "at most 50; found 51" in answer.text) == (400, True)
    assert shop.get(f"/rules/{rule_id}/tests.zip?trace_id={'0' * 32}").status == 404
    assert shop.get(f"/rules/none/tests.zip?trace_id={TRACE}").status == 404


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "expected RULE_ID/tests.yaml and RULE_ID/traces/TRACE_ID.json alone, found nothing"),
        ({"r/tests.yaml": TESTS, f"r/traces/{TRACE}.json": "{}", "r/../../x.json": "{}"}, "alone, found"),
        ({"r/tests.yaml": TESTS, f"/r/traces/{TRACE}.json": "{}"}, "alone, found"),
        ({"r/tests.yaml": TESTS, f"q/traces/{TRACE}.json": "{}"}, "alone, found"),
        ({"r/tests.yaml": TESTS}, f"its tests.yaml names other traces than it holds: {TRACE}.json"),
        ({"r/tests.yaml": "- {expect: {a: fail}}\n"}, "trace"),
        ({"r/tests.yaml": TESTS, f"r/traces/{TRACE}.json": "{}"}, "rule"),
    ],
)
def test_a_file_that_is_no_such_download_writes_nothing(tmp_path: Path, files: dict[str, str], said: str) -> None:
    file = tmp_path / "tests.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    place = tmp_path / "rules" / "other"
    place.mkdir(parents=True)
    rule = {"id": "other", "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"a": ["<=", 1]}}]}
    (place / "rule.yaml").write_text(json.dumps(rule))
    refused = _promote(tmp_path, file)
    assert refused.exit_code == 2, refused.output
    assert said in refused.output
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in (
        ["tests.zip", "rule.yaml"],
        ["rule.yaml", "tests.zip"],
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("r/tests.yaml", "- {}")
    content = file.read_bytes()
    file.write_bytes(content[:42] + b"\x07" + content[43:])  # after the header and the name: no block of deflate
    assert "expected a download of the page, a zip file; Error -3" in _promote(tmp_path, file).output
    file.write_bytes(b"PK no zip")
    assert "expected a download of the page, a zip file" in _promote(tmp_path, file).output
    assert _promote(tmp_path, tmp_path / "nothing.zip").exit_code == 2


def test_an_archive_that_unpacks_to_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_MOST_BYTES", 1 << 20)
    file = tmp_path / "tests.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("r/tests.yaml", " " * (2 << 20))
    with pytest.raises(NotPossible, match="expected at most 1 MiB in it, found more"):
        download.unpacked(file)


def test_from_goes_with_no_other_choice(tmp_path: Path) -> None:
    refused = _promote(tmp_path, tmp_path / "tests.zip", "--failing", "x")
    assert (refused.exit_code, "--from takes the tests as they are" in refused.output) == (2, True)
