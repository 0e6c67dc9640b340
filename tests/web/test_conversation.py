"""Conversations on the pages of a trace and of a session: folded, as text, whole over the pages of a session."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from build.fleet import trace_id
from build.shop import MS, SECOND, Writer, closed, fill, messages
from build.site import Site, serving, text_of
from tracegrade.codec.without_values import HIDDEN
from tracegrade.extract.conversation import conversation
from tracegrade.extract.extract import extract
from tracegrade.model.session import session_trace_id
from tracegrade.model.span import Resource
from tracegrade.model.trace import Trace
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.heads import unjudged_sessions
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.masked import without_values

_MARKUP = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
_AT_NS = 10**18


def _turn(number: int, said: str, answer: str, tenant: str = "default") -> tuple[Trace, str]:
    """One turn of the session ``talk``, whose model call is told all turns before it."""
    writer = Writer(number, _AT_NS + number * SECOND, Resource({"service.name": "s"}), tenant)
    run = writer.agent("helper", said, answer, "talk/1")
    before = [(role, f"{role} {at}") for at in range(1, number) for role in ("user", "assistant")]
    told = messages(("system", "Be kind."), *before, ("user", said))
    writer.model(run, MS, **{"gen_ai.input.messages": told, "gen_ai.output.messages": messages(("assistant", answer))})
    writer.done(run)
    return closed(writer), "talk/1"


def _served(folder: Path, *turns: tuple[Trace, str], judged: bool = False) -> RuleSet:
    return fill(folder, iter(turns if judged else [(trace, None) for trace, _ in turns]))


def test_content_is_text_and_never_markup(tmp_path: Path) -> None:
    _served(tmp_path, _turn(1, _MARKUP, _MARKUP), judged=True)
    session = f"/sessions/{session_trace_id('default', 'talk/1').hex()}"
    with serving(tmp_path) as site:
        for address in (f"/traces/{trace_id(1)}", session, f"/traces/{trace_id(1)}/spans/{(1 << 20) + 2:016x}"):
            html = site.get(address).text
            assert "<img src=x" not in html
            assert "alert(2)</script>" not in html
            assert "&lt;script&gt;alert(2)" in html


def test_system_instructions_are_the_system_prompt_once_and_hidden_without_the_right(tmp_path: Path) -> None:
    writer = Writer(1, _AT_NS, Resource({"service.name": "s"}))
    run = writer.agent("helper", "hi", "hello", "talk/1")
    parts = json.dumps([{"type": "text", "content": text} for text in ("Be brief.", "Ask before you pay.")])
    for _ in range(2):
        writer.model(
            run, MS, **{"gen_ai.system_instructions": parts, "gen_ai.input.messages": messages(("user", "hi"))}
        )
    writer.model(run, MS, **{"gen_ai.system_instructions": "Be kind."})
    writer.done(run)
    extraction = extract(closed(writer))
    (talk,) = conversation(extraction)
    assert talk.system == ["Be brief.\n\nAsk before you pay.", "Be kind."]
    assert without_values(talk).system == [HIDDEN, HIDDEN]
    fill(tmp_path, iter([(closed(writer), "talk/1")]))
    with serving(tmp_path) as site:
        for address in (f"/traces/{trace_id(1)}", f"/sessions/{session_trace_id('default', 'talk/1').hex()}"):
            assert site.get(address).text.count("Ask before you pay.") == 1


def test_a_long_text_is_folded_and_a_very_long_one_is_cut(tmp_path: Path) -> None:
    _served(tmp_path, _turn(1, "x" * 2000, "y" * 2001), _turn(2, "z" * 60_000, "short"))
    with serving(tmp_path) as site:
        html = site.get(f"/traces/{trace_id(1)}").text
        assert html.count('<details class="long">') == 1
        assert "y" * 300 + "…</span>" in html
        assert "x" * 2000 in html
        html = site.get(f"/traces/{trace_id(2)}").text
        assert "z" * 50_000 + "…" in html
        assert "z" * 50_001 not in html


def test_what_earlier_turns_said_is_shown_once_in_a_session(tmp_path: Path) -> None:
    _served(tmp_path, *(_turn(number, f"user {number}", f"assistant {number}") for number in (1, 2, 3)), judged=True)
    with serving(tmp_path) as site:
        page = text_of(site.get(f"/sessions/{session_trace_id('default', 'talk/1').hex()}").text)
        for said in ("user 1", "assistant 1", "user 2", "assistant 2", "user 3", "assistant 3", "Be kind."):
            assert page.count(f" {said}") == 1, said
        page = text_of(site.get(f"/traces/{trace_id(3)}").text)
        assert "4 earlier messages of this conversation user user 1 assistant assistant 1" in page


def test_a_session_that_no_rule_judged_is_read_from_all_its_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.web.pages.sessions._MOST_LISTED", 1)
    _served(tmp_path, _turn(1, "Hello", "Hi"), _turn(2, "Weather?", "Sunny"))
    with serving(tmp_path) as site:
        link = re.search(r'<dt>Session</dt><dd><a href="([^"]+)">talk/1<', site.get(f"/traces/{trace_id(1)}").text)
        assert link is not None
        page = text_of(site.get(unescape(link[1])).text)
    assert "No rule with scope: session judged it." in page
    assert page.index("Hello") < page.index("Weather?")


def test_a_session_is_of_its_tenant(tmp_path: Path) -> None:
    _served(tmp_path, _turn(1, "ours", "yes"), _turn(1, "theirs", "no", "globex"), judged=True)

    def said(site: Site, tenant: str) -> str:
        own = session_trace_id(tenant, "talk/1").hex()
        return text_of(site.get(f"/sessions/{own}?tenant={tenant}").text)

    with serving(tmp_path) as site:
        assert "ours" in said(site, "default")
        assert "theirs" not in said(site, "default")
        assert "theirs" in said(site, "globex")
        assert "ours" not in said(site, "globex")
        nowhere = site.get(f"/sessions/{session_trace_id('globex', 'talk/1').hex()}?tenant=default")
        assert nowhere.status == 404


def test_the_turns_of_a_long_session_are_shown_over_several_pages(tmp_path: Path) -> None:
    turns = [_turn(number, f"question-{number}.", f"answer-{number}.") for number in range(1, 71)]
    _served(tmp_path, *turns, judged=True)
    address, shown = f"/sessions/{session_trace_id('default', 'talk/1').hex()}", set()
    with serving(tmp_path) as site:
        while address:
            html = site.get(address).text
            some = [int(number) for number in re.findall(r"question-(\d+)\.", text_of(html))]
            assert len(some) <= 30
            shown |= set(some)
            assert html.count("<rect") == 70
            earlier = re.search(r'<a href="([^"]+)" rel="prev"', html)
            address = unescape(earlier[1]) if earlier else ""
        own = session_trace_id("default", "talk/1").hex()
        listed = re.search(r'href="([^"]+)">7\. ', site.get(f"/sessions/{own}").text)
        assert listed is not None
        assert "question-7." in text_of(site.get(unescape(listed[1]).partition("#")[0]).text)
    assert shown == set(range(1, 71))


def test_a_session_that_no_rule_judged_is_in_the_list_with_its_page_and_only_of_its_tenant(tmp_path: Path) -> None:
    of_two = [_turn(number, f"user {number}", "yes", "default" if number < 3 else "globex") for number in (1, 2, 3)]
    _served(tmp_path, *of_two)
    with serving(tmp_path) as site:
        html = site.get("/sessions?since=2000-01-01&until=2100-01-01").text
        _, _, listed = html.partition('id="not-judged"')
        addresses = [unescape(found) for found in re.findall(r'href="(/sessions/[^"]+)"', listed)]
        # The latest first; in each tenant the session is another one.
        assert re.findall(r'>talk/1</a>.*?<td class="num">(\d)</td>', listed, re.DOTALL) == ["1", "2"]
        assert "No rule with scope: session judged it." in text_of(site.get(addresses[1]).text)
        assert "user 2" in site.get(addresses[1]).text
        assert 'id="not-judged"' not in site.get("/sessions?since=2000-01-01&until=2100-01-01&outcome=fail").text
        assert 'id="not-judged"' not in site.get("/sessions?since=2000-01-01&until=2001-01-01").text
        with site.store("globex") as connection:
            (sums,) = unjudged_sessions(connection, ResultFilter(), 10)
        assert (sums.tenant, sums.trace_count) == ("globex", 1)


def test_a_session_that_a_rule_judged_is_not_listed_as_one_that_none_did(tmp_path: Path) -> None:
    _served(tmp_path, _turn(1, "user 1", "yes"), judged=True)
    with serving(tmp_path) as site:
        html = site.get("/sessions?since=2000-01-01&until=2100-01-01").text
    assert ">talk/1</a>" in html
    assert 'id="not-judged"' not in html
