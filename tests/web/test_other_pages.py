import re
import time
from typing import Any

import pytest

from build import each
from build.site import Site, text_of
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.web.render import NAVIGATION, SECTIONS


def _snapshot(role: str, age_ns: int, metrics: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    now_ns = time.time_ns()
    return {"role": role, "started_ns": now_ns - 60_000_000_000, "time_ns": now_ns - age_ns, "metrics": metrics}


def _point(value: float, **labels: str) -> dict[str, Any]:
    return {"labels": labels, "value": value}


def test_sessions_are_listed_with_their_own_results(shop: Site) -> None:
    page = text_of(shop.get("/sessions").text)
    assert "talk shop ✓ 1 pass 2 6" in page


def test_a_session_is_a_conversation_beside_its_timeline(shop: Site) -> None:
    (address,) = set(re.findall(r'href="(/sessions/[0-9a-f]{32})"', shop.get("/sessions").text))
    html = shop.get(address).text
    page = text_of(html)
    assert "2 turns, 6 tool calls" in page
    assert page.count("user Please order 2 of A-1 for user 123.") == 2
    assert "✗ order-steps-out-of-order" in page
    assert html.count("<rect") == 2
    # The id of a session under /traces, as it stands in results, leads there too.
    assert text_of(shop.get(address.replace("sessions", "traces")).text) == page


def test_ingest_says_that_nothing_was_published(shop: Site) -> None:
    assert "No metrics yet" in text_of(shop.get("/ingest").text)


def test_ingest_adds_up_what_both_roles_publish(shop: Site) -> None:
    shop.snapshots[:] = [
        _snapshot(
            "receive",
            500_000_000,
            {
                "tracegrade.receiver.accepted_items": [_point(700, signal="traces", transport="grpc")],
                "tracegrade.receiver.requests": [
                    _point(30, signal="traces", transport="grpc", outcome="accepted", reason=""),
                    _point(2, signal="traces", transport="http", outcome="refused", reason="journal_full"),
                ],
                "tracegrade.spans.unread": [_point(40)],
            },
        ),
        _snapshot(
            "judge",
            60_000_000_000,
            {
                "tracegrade.spans": [
                    _point(600, fate="judged", reason=""),
                    _point(3, fate="too_late", reason=""),
                    _point(2, fate="dropped", reason="span_cap"),
                ],
                "tracegrade.spans.open": [_point(55)],
                "tracegrade.traces.closed": [_point(20, close_reason="settled", complete="true")],
                "tracegrade.traces.not_decoded": [_point(15, reason="sampled_out")],
                "tracegrade.extract.unread_model_spans": [
                    _point(4, service="shop", scope="acme.ai", reason="messages not readable")
                ],
                "tracegrade.extract.unread_log_records": [
                    _point(7, service="qwen-code", scope="lib", reason="no trace id")
                ],
                "tracegrade.extract.calls_by_shape": [_point(9, service="shop", scope="acme.ai")],
            },
        ),
    ]
    try:
        page = text_of(shop.get("/ingest").text)
    finally:
        shop.snapshots.clear()
    assert "Spans accepted 700" in page
    assert "shop acme.ai 4 spans of model calls: messages not readable" in page
    assert "qwen-code lib 7 log records that look like tool calls: no trace id" in page
    assert "shop acme.ai 9 calls" in page
    assert "Requests refused 2" in page
    assert "Spans waiting 95 40 unread, 55 in open traces" in page
    assert "Lost after acceptance 5" in page
    assert "● alive receive" in page
    assert "▲ silent judge" in page
    assert "! dropped span_cap 2" in page
    assert "! too_late came later than traces.reopen_for 3" in page
    assert "settled ● complete 20" in page
    assert "sampled_out 15 75.0 %" in page
    assert "Current problems" not in page


def test_ingest_names_what_is_wrong_now(shop: Site) -> None:
    telemetry = Telemetry("receive")
    telemetry.conditions.begin("disk_failing", "the disk is full", "journal")
    shop.snapshots.append(telemetry.snapshot())
    try:
        page = text_of(shop.get("/ingest").text)
    finally:
        shop.snapshots.clear()
    assert "Current problems" in page
    assert "! disk_failing journal" in page
    assert "senders are being refused the disk is full free disk space" in page


@each("path", [section.address for section in SECTIONS])
def test_every_section_marks_itself_and_leads_to_the_others(shop: Site, path: str) -> None:
    html = shop.get(path).text
    nav = re.search(r'<nav aria-label="Sections">(.*?)</nav>', html, re.DOTALL)
    assert nav is not None
    assert len(re.findall(r"<a ", nav[1])) == len(NAVIGATION)
    assert len(re.findall(r'aria-current="page"', nav[1])) == 1


@pytest.mark.parametrize("path", ["/alerts", "/rules/order-steps-out-of-order"])
def test_error_budgets_are_shown_with_a_picture_and_its_words(shop: Site, path: str) -> None:
    html = shop.get(path).text
    section = re.search(r'<section id="budgets">.*?</section>', html, re.DOTALL)
    assert section is not None
    rows = re.findall(r'<tr role="row"><th role="rowheader".*?</tr>', section[0], re.DOTALL)
    strict = text_of(rows[0])
    assert "95 % over 7d" in strict
    assert "overspent" in strict
    assert re.search(r'<svg class="chart trend"[^>]* aria-label="Error budget over 7d: [^"]* now"', rows[0])
    assert ("refund-without-lookup" in section[0]) is (path == "/alerts")


def test_error_budgets_obey_the_filters_of_the_page(shop: Site) -> None:
    assert "refund-agent" in shop.get("/alerts?service=support").text
    of_support = re.search(r'<section id="budgets">.*?</section>', shop.get("/alerts?service=support").text, re.DOTALL)
    assert of_support is not None
    assert "order-agent" not in of_support[0]
    assert '<section id="budgets">' not in shop.get("/alerts?rule=calls-over-budget").text
