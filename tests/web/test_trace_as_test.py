"""A trace on the page becomes a test: the command, and the files to download."""

import io
import re
import zipfile
from pathlib import Path
from urllib.request import urlopen

from build.site import Site, text_of
from tracegrade.assemble.settings import TracesSettings
from tracegrade.pipeline.rule_tests import run_tests
from waiting import WITHIN_S

TRACE = f"a1{1:030x}"


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
