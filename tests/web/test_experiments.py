"""The pages of experiments and runs, and what their forms change."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from build import each
from build.api import trace_id
from build.asgi import Called, call
from build.shop import GOOD, SECOND, UNFINISHED, WRONG_ORDER, fill, order
from build.shop_runs import store_run
from build.site import Site, rows_of, serving, text_of
from tracegrade.history.runs.experiment_entries import report as report_entry
from tracegrade.store.runs import ReportedKind
from tracegrade.web.app import build_app

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Runs prompts/1 (2 of 4 good), prompts/2 (4 of 4), prompts/3 (broken off), and one order judged live."""
    now_ns = time.time_ns() - 1000 * SECOND
    with serving(tmp_path) as served:
        served.rules = fill(tmp_path, iter([(order(1, now_ns, "1.4.2", WRONG_ORDER), None)]))
        half = [WRONG_ORDER, UNFINISHED, GOOD, GOOD]
        store_run(tmp_path, served.rules, "prompts/1", half, now_ns, labels={"prompt": "v1 <b>"}, gate="fail")
        store_run(tmp_path, served.rules, "prompts/2", [GOOD] * 4, now_ns + SECOND)
        store_run(tmp_path, served.rules, "prompts/3", [GOOD], now_ns + 2 * SECOND, state="incomplete")
        yield served


def post(site: Site, address: str, **fields: str) -> Called:
    body = "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
    return call(build_app(site.sources), "POST", address, body, **FORM)


def test_experiments_are_listed_with_their_latest_and_best_run(site: Site) -> None:
    row = rows_of(site.get("/experiments").text)["prompts"]
    assert row.startswith("prompts 3 prompts/3 … incomplete")
    assert "prompts/1 0.7222 prompts/2 1.0000" in row


def test_an_experiment_shows_every_run_against_the_baseline_and_a_chart(site: Site) -> None:
    html = site.get("/experiments/prompts").text
    rows = rows_of(html)
    assert rows["prompts/1"].startswith("prompts/1 prompt=v1 <b> ✓ complete gate: fail 0.7222 baseline")
    assert "1.0000 +0.2778 ★" in rows["prompts/2"]
    assert "Pin" not in rows["prompts/3"]
    assert "prompt=v1 &lt;b&gt;" in html
    assert html.count('class="dot"') == 2
    assert html.count('class="dot unfinished"') == 1
    said = re.search(r'<svg class="curve scores"[^>]*aria-label="([^"]*)"', html)
    assert said is not None
    assert "the baseline prompts/1 0.7222, the best prompts/2 1.0000 (+0.2778)" in said[1]


def test_a_baseline_is_pinned_and_unpinned_by_the_form(site: Site) -> None:
    answer = post(site, "/experiments/prompts", baseline="prompts/2")
    assert (answer.status, answer.headers["location"]) == (303, "/experiments/prompts")
    page = site.get("/experiments/prompts").text
    assert "Baseline 1.0000 prompts/2 , pinned" in text_of(page)
    assert "−0.2778" in rows_of(page)["prompts/1"]
    refused = post(site, "/experiments/prompts", baseline="prompts/3")
    assert refused.status == 409
    assert "prompts/3 is incomplete: nothing can be measured against it" in text_of(refused.body.decode())
    assert post(site, "/experiments/prompts", baseline="").status == 303
    assert "prompts/1 , the first with a score" in text_of(site.get("/experiments/prompts").text)


def test_a_run_shows_its_rules_beside_the_baseline_and_leads_to_its_traces(site: Site) -> None:
    html = site.get("/runs/prompts/2").text
    row = rows_of(html)["order-steps-out-of-order"]
    assert " ".join(row.split()) == "order-steps-out-of-order 100 % 66.7 % +0.3333 ✓ 4 pass"
    assert "No result by answers-from-search" in text_of(html)
    of_first = site.get("/runs/prompts/1").text
    failing = re.search(
        r'href="(/traces\?run=prompts%2F1&amp;rule=order-steps-out-of-order&amp;outcome=fail)"', of_first
    )
    assert failing is not None
    listed = site.get(failing[1].replace("&amp;", "&")).text
    address = f"/traces/{trace_id(1)}?run=prompts%2F1&amp;rule=order-steps-out-of-order&amp;list="
    assert f'href="{address}' in listed
    assert listed.count("<tr>") == 1 + 1
    assert '<input type="hidden" name="run" value="prompts/1">' in listed


def test_a_trace_of_a_run_is_shown_with_its_own_results_and_stays_in_the_run(site: Site) -> None:
    of_run = site.get(f"/traces/{trace_id(1)}?run=prompts/2").text
    assert "✗" not in re.search(r'<section id="results">.*?</section>', of_run, re.DOTALL)[0]  # type: ignore[index]
    assert (
        "✗" in re.search(r'<section id="results">.*?</section>', site.get(f"/traces/{trace_id(1)}").text, re.DOTALL)[0]
    )  # type: ignore[index]
    spans = re.findall(r'href="(/traces/\w+/spans/[^"]*)"', of_run)
    assert spans
    assert all(span.endswith("?run=prompts%2F2") for span in spans)
    assert "run prompts/2 / Traces" in text_of(site.get(spans[0]).text)
    assert site.get(f"/traces/{trace_id(4)}").status == 404


def test_a_trace_of_a_run_becomes_a_test_from_that_run(site: Site) -> None:
    html = site.get(f"/traces/{trace_id(2)}?run=prompts/2").text
    command = f"tracegrade promote {trace_id(2)} --rule order-differs-from-request --run prompts/2"
    assert command in text_of(html)
    download = re.search(r'href="([^"]*order-differs-from-request\.zip[^"]*)"', html)
    assert download is not None
    assert download[1].endswith("?run=prompts%2F2")
    assert call(build_app(site.sources), "GET", download[1]).status == 200
    assert site.get(download[1].partition("?")[0]).status == 404  # it was not judged live


def test_labels_are_written_a_line_each(site: Site) -> None:
    answer = post(site, "/runs/prompts/1", labels="model=größer als m-2\r\n\r\nnote=a=b\r\n")
    assert (answer.status, answer.headers["location"]) == (303, "/runs/prompts/1")
    html = site.get("/runs/prompts/1").text
    assert ">model=größer als m-2\nnote=a=b</textarea>" in html
    for written, status, said in (
        ("model", 400, "expected KEY=VALUE such as model=m-2, found 'model'"),
        ("a=1\na=2", 400, "'a' is given twice, as '1' and '2'"),
        ("a=" + "b" * 1001, 409, "a value of at most 1000 characters"),
        ("x" * 600_000, 400, "longer than"),
    ):
        refused = post(site, "/runs/prompts/1", labels=written)
        assert refused.status == status
        assert said in text_of(refused.body.decode())
    assert site.get("/runs/prompts/1").text == html
    assert post(site, "/runs/prompts/3", labels="a=b").status == 409


@each("address", ["/experiments/promts", "/runs/prompts/9", "/traces?run=promts", "/sessions?run=x"])
def test_what_is_not_there_is_said(site: Site, address: str) -> None:
    answer = site.get(address)
    assert answer.status == 404
    assert "There is no " in text_of(answer.text)


@pytest.mark.parametrize("address", ["/experiments/prompts", "/runs/prompts/1", "/experiments"])
def test_another_tenant_sees_nothing_and_changes_nothing(site: Site, address: str) -> None:
    answer = site.get(f"{address}?tenant=other")
    assert "prompts/2" not in text_of(answer.text)
    for of_other in ("/experiments/prompts?tenant=other", "/runs/prompts/1?tenant=other"):
        assert post(site, of_other, baseline="prompts/2", labels="").status == 404
    assert "prompt=v1" in site.get("/runs/prompts/1").text


def test_who_may_only_read_is_shown_no_form(site: Site, tmp_path: Path) -> None:
    with serving(tmp_path, config=site.config.model_copy(update={"web": open_to_others()})) as other:
        other.rules = site.rules
        app = build_app(other.sources)
        for address in ("/experiments/prompts", "/runs/prompts/1"):
            assert b'method="post"' not in call(app, "GET", address).body
            assert call(app, "POST", address, b"baseline=&labels=", **FORM).status == 403
    assert "prompt=v1" in site.get("/runs/prompts/1").text


def open_to_others() -> object:
    from tracegrade.config import WebSettings

    return WebSettings.model_validate({"endpoint": "0.0.0.0:4319", "insecure": True})


def test_without_experiments_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.rules = fill(tmp_path, iter([]))
        assert "tracegrade replay --experiment NAME" in text_of(served.get("/experiments").text)


def report(site: Site, kind: ReportedKind, score: float | None, **configuration: str) -> None:
    report_entry(site.store_url, "default", "prompts", kind, score, configuration)


def test_what_others_reported_stands_in_the_timeline(site: Site) -> None:
    report(site, "param_tune", 0.5, temperature="0.2 <i>")
    report(site, "judge", 0.9, judge="one::good")
    shown = text_of(site.get("/experiments/prompts").text)
    assert re.search(r"param tune temperature 0\.2 <i> reported 0\.5000 −0\.2222 \S+ \S+ Configuration", shown)
    assert "promoted the best of the tune before" in shown
    # A judge's score is of another kind: it is measured against nothing, and is not the best.
    assert re.search(r"judge judge one::good reported 0\.9000 \d{4}-", shown)
    assert "Best 1.0000 prompts/2 , +0.2778" in shown


def test_a_tune_that_is_better_than_every_run_is_the_best(site: Site) -> None:
    report(site, "prompt_tune", None)
    assert "Best 1.0000 prompts/2" in text_of(site.get("/experiments/prompts").text)
    store_run(site.config.data_path, site.rules, "tuned/1", [WRONG_ORDER, GOOD], time.time_ns() - SECOND)
    report_entry(site.store_url, "default", "tuned", "prompt_tune", 1.0, {"system_prompt": "Check."})
    assert re.search(r"Best 1\.0000 a prompt tune, \+0\.\d{4}", text_of(site.get("/experiments/tuned").text))


def test_differences_from_the_baseline_are_drawn(site: Site) -> None:
    report(site, "param_tune", 0.5)
    page = site.get("/experiments/prompts").text
    chart = page[page.index('<svg class="curve deltas"') :].partition("</figure>")[0]
    said = re.search(r'aria-label="(.*?)"', chart)
    assert said is not None
    # Neither the baseline itself, nor the run that is not complete, nor what was promoted from the tune.
    assert said[1] == (
        "Differences of 2 results from the baseline prompts/1, the least param tune −0.2222, the most 2 +0.2778"
    )
    assert re.findall(r"<title>(.*?)</title>", chart) == ["2: +0.2778", "param tune: −0.2222"]
    assert (chart.count('class="fill-pass"'), chart.count('class="fill-fail"')) == (1, 1)


def test_there_is_no_chart_of_differences_without_any(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.rules = fill(tmp_path, iter([]))
        store_run(tmp_path, served.rules, "alone/1", [GOOD], time.time_ns() - SECOND)
        assert "curve deltas" not in served.get("/experiments/alone").text
