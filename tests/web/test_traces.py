import re

import pytest

from build import each
from build.site import Site, text_of


def _listed(html: str) -> list[int]:
    """The numbers of the traces on a page, in its order."""
    return [int(trace_id[-4:], 16) for trace_id in re.findall(r'<th scope="row"><a href="/traces/([0-9a-f]{32})', html)]


@each(
    ("query", "numbers"),
    [
        ("", [7, 6, 5, 4, 3, 2, 1]),
        ("?service=shop", [7, 4, 2, 1]),
        ("?rule=order-steps-out-of-order&outcome=fail", [1]),
        ("?outcome=fail", [7, 6, 3, 1]),
        ("?release=1.4.2", [2]),
    ],
)
def test_traces_are_chosen_by_the_address_newest_first(shop: Site, query: str, numbers: list[int]) -> None:
    assert _listed(shop.get(f"/traces{query}").text) == numbers


def test_an_incomplete_trace_is_marked(shop: Site) -> None:
    assert text_of(shop.get("/traces?service=shop").text).count("incomplete") == 1


def test_no_such_traces_is_said(shop: Site) -> None:
    assert "No matching traces in the last 24 hours." in text_of(shop.get("/traces?service=nobody").text)


def test_older_traces_are_on_further_pages(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.web.pages.traces._AT_A_TIME", 3)
    seen, address = [], "/traces"
    while address:
        html = shop.get(address).text
        seen += _listed(html)
        older = re.search(r'href="([^"]+)" rel="next"', html)
        address = older[1].replace("&amp;", "&") if older else ""
    assert seen == [7, 6, 5, 4, 3, 2, 1]


@each(
    ("query", "message"),
    [
        ("outcome=bad", "outcome: expected one of pass, fail, not_evaluable, error, found 'bad'"),
        ("before=%C2%B2", "before: expected a number, found '²'"),
        ("before=99999999999999999999", "before: expected a number"),
        ("before=-1", "before: expected a number, found '-1'"),
    ],
)
@each("section", ["/traces", "/sessions"])
def test_an_address_that_says_nothing_is_refused(shop: Site, section: str, query: str, message: str) -> None:
    answer = shop.get(f"{section}?{query}")
    assert answer.status == 400
    assert message in text_of(answer.text)
