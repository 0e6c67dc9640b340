"""What happens in a job, as server-sent events and on a WebSocket, from real jobs against a scripted server."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from sqlalchemy import Engine

from build import each
from build.site import Site
from build.websockets import Client, Refused, opened
from suites.build.job_streams import Stream, names, page
from suites.build.jobs import Place, placed, right
from suites.build.scripted_models import Answer
from tracegrade.access.caller import Caller
from tracegrade.suites.jobs.submit import cancel
from tracegrade.suites.web import job_events
from tracegrade.suites.web.api import jobs as jobs_api
from tracegrade.web import rights, streams
from waiting import WITHIN_S, eventually

TOKEN = "secret-of-the-page"
BEARER = {"authorization": f"Bearer {TOKEN}"}

# The events that the documentation of the evaluation lists, in its order, for one model and one case.
DOCUMENTED = [
    "job_created",
    "tool_eval_init",
    "tool_eval_progress",
    "tool_eval_result",
    "job_progress",
    "tool_eval_summary",
    "tool_eval_complete",
    "job_completed",
]


@pytest.fixture
def here(tmp_path: Path, engine: Engine) -> Iterator[Place]:
    (tmp_path / "data").mkdir()
    with placed(tmp_path, engine, right, cases=1) as place:
        yield place


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """At the end, no stream is open."""
    yield
    while Stream.open:
        Stream.open.pop().close()


def test_a_stream_has_every_documented_event_with_its_fields_and_ends_with_the_job(here: Place) -> None:
    with page(here) as site, here.working():
        job = here.submit("m-1")
        stream = Stream(site, job.id)
        assert stream.answer.getheader("content-type", "").startswith("text/event-stream")
        assert stream.answer.getheader("x-accel-buffering") == "no"
        events = list(stream.read())
    assert names(events) == DOCUMENTED
    assert {event["job_id"] for event in events} == {job.id}
    assert [event["number"] for event in events] == [*range(1, 9)]
    created, init, progress, result, generic, summary, complete, completed = events
    assert created["status"] == "submitted"
    assert (init["targets"], init["total"], init["suite_name"]) == (["one::m-1"], 1, "Weather")
    assert (progress["current"], progress["total"]) == (1, 1)
    scores = [result[name] for name in ("tool_selection_score", "param_accuracy", "overall_score")]
    assert scores == [1.0, 1.0, 1.0]
    assert (result["actual_tool"], result["actual_params"]) == ("get_weather", {"city": "city 1"})
    assert (result["expected_tool"], result["prompt"]) == ("get_weather", "Weather in city 1?")
    assert bytes.fromhex(result["trace_id"]) in here.trace_ids()
    assert (generic["percentage"], generic["detail"]) == (100, "one::m-1: 1 of 1")
    assert (summary["model"], summary["avg_score"]) == ("one::m-1", 1.0)
    assert complete["eval_id"] == job.id
    assert "delta" in complete
    assert completed["result_ref"] == job.id


def test_last_event_id_goes_on_after_it_and_after_the_end_there_is_nothing(here: Place) -> None:
    with page(here) as site, here.working():
        job = here.submit("m-1")
        here.until(job.id, "done")
        assert names(list(Stream(site, job.id, last_event_id="5").read())) == DOCUMENTED[5:]
        assert names(list(Stream(site, job.id, "?after=7").read())) == DOCUMENTED[7:]
        assert names(list(Stream(site, job.id, "?after=7", last_event_id="6").read())) == DOCUMENTED[6:]
        over = Stream(site, job.id, last_event_id="8")
        assert (over.answer.status, over.answer.read()) == (204, b"")
        for headers, status in (({"last_event_id": "x"}, 400), ({"last_event_id": "-1"}, 400)):
            assert Stream(site, job.id, **headers).answer.status == status
        assert Stream(site, job.id, "?after=x").answer.status == 400
        assert Stream(site, "none").answer.status == 404
        assert Stream(site, job.id, "?tenant=other").answer.status == 404


def test_failures_and_cancellations_are_told(here: Place) -> None:
    with page(here) as site:
        first = here.submit("m-1")
        stream = Stream(site, first.id).read()
        assert next(stream)["type"] == "job_created"
        cancel(here.config, "default", first.id)
        assert names(list(stream)) == ["job_cancelled"]
        here.server.script = lambda body: Answer({"error": {"message": "no such key"}}, 401)
        with here.working():
            second = here.submit("m-1")
            *_, failed = Stream(site, second.id).read()
    assert failed["type"] == "job_failed"
    assert "401" in failed["error"]


def test_a_comment_comes_while_nothing_happens(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_api, "KEEP_ALIVE_S", 0.1)
    with page(here) as site:
        stream = Stream(site, here.submit("m-1").id)
        lines = stream.lines()
        assert next(line for line in lines if line.startswith(":")) == ": still here"
        stream.close()


def test_a_websocket_tells_all_jobs_of_its_tenant_from_the_handshake_on(here: Place) -> None:
    with page(here) as site, here.working():
        before = here.submit("m-1")
        here.until(before.id, "done")
        with opened(site.url) as client, opened(site.url, "/ws?tenant=other") as other:
            job = here.submit("m-1", "m-2")
            found = [client.read()]
            while found[-1]["type"] != "job_completed":
                found.append(client.read())
            later = here.submit("m-1")
            assert (client.read()["type"], later.id) == ("job_created", later.id)
            other.say('{"type": "ping"}')
            assert other.read() == {"type": "pong"}  # and nothing before
    assert {event["job_id"] for event in found} == {job.id}
    of_case = ["tool_eval_progress", "tool_eval_result", "job_progress", "tool_eval_summary"]
    assert names(found) == [*DOCUMENTED[:2], *of_case, *of_case, *DOCUMENTED[6:]]


def test_a_websocket_of_one_job_replays_it_and_is_closed_at_its_end(here: Place) -> None:
    with page(here) as site, here.working():
        job = here.submit("m-1")
        with opened(site.url, f"/ws?job={job.id}") as client:
            assert names(_all(client)) == DOCUMENTED
            assert client.code == 1000
        with opened(site.url, f"/ws?job={job.id}&after=6") as client:
            assert names(_all(client)) == DOCUMENTED[6:]
        with opened(site.url, f"/ws?job={job.id}&after=8") as client:
            assert _all(client) == []


@each(
    ("query", "status", "said"),
    [
        ("?job=none", 404, "job 'none'"),
        ("?after=1", 400, "after: needs job"),
        ("?job=x&after=y", 400, "after: expected the number of an event, found 'y'"),
        ("?jobs=x", 400, "jobs: is not a parameter"),
    ],
)
def test_a_websocket_that_asks_for_what_is_not_there_is_told_so(
    here: Place, query: str, status: int, said: str
) -> None:
    with page(here) as site, pytest.raises(Refused) as refused, opened(site.url, f"/ws{query}"):
        pass
    assert refused.value.status == status
    assert said in refused.value.json["detail"]


def test_no_websocket_and_no_stream_without_a_token(here: Place) -> None:
    job = here.submit("m-1")
    with page(here, auth={"tokens": [TOKEN]}) as site:
        with pytest.raises(Refused, match="401"), opened(site.url):
            pass
        assert Stream(site, job.id).answer.status == 401
        with opened(site.url, f"/ws?job={job.id}", **BEARER) as client:
            assert client.read()["type"] == "job_created"
        assert next(Stream(site, job.id, **BEARER).read())["type"] == "job_created"


def test_streams_end_when_the_token_is_taken_back(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    path = here.folder / "tokens"
    path.write_text(f"{TOKEN}\nanother-token-of-the-page\n")
    job = here.submit("m-1")
    with page(here, auth={"token_file": str(path)}) as site, opened(site.url, "/ws", **BEARER) as client:
        stream = Stream(site, job.id, **BEARER).read()
        live = HTTPConnection(site.url.removeprefix("http://"), timeout=WITHIN_S)
        live.request("GET", "/live", headers=BEARER)
        lines = live.getresponse()
        assert next(stream)["type"] == "job_created"
        path.write_text("another-token-of-the-page\n")
        assert list(stream) == []
        assert client.read() is None
        assert client.code == 1008
        assert lines.read().startswith(b"retry:")  # it ends
        lines.close()
        live.close()


def test_streams_end_when_the_server_stops(here: Place) -> None:
    job = here.submit("m-1")
    with ExitStack() as stack:
        site = stack.enter_context(page(here))
        client = stack.enter_context(opened(site.url))
        stream = Stream(site, job.id).read()
        assert next(stream)["type"] == "job_created"
        site.stopping = True
        assert list(stream) == []
        assert client.read() is None
        assert client.code == 1001


@pytest.mark.parametrize(("bound", "status"), [("MOST_STREAMS", 503), ("MOST_OF_CALLER", 429)])
def test_there_are_only_so_many_streams(here: Place, monkeypatch: pytest.MonkeyPatch, bound: str, status: int) -> None:
    monkeypatch.setattr(streams, bound, 3)
    job = here.submit("m-1")
    with page(here) as site, urlopen(f"{site.url}/live", timeout=WITHIN_S) as live:
        assert live.readline() == b"retry: 3000\n"
        with opened(site.url) as client:
            stream = Stream(site, job.id)
            assert next(stream.read())["type"] == "job_created"
            full = Stream(site, job.id).answer
            assert (full.status, full.headers["Retry-After"]) == (status, "10")
            assert json.loads(full.read())["type"] == "urn:tracegrade:problem:busy"
            with pytest.raises(HTTPError, match=str(status)) as refused:
                urlopen(f"{site.url}/live", timeout=WITHIN_S)
            assert json.loads(refused.value.read())["type"] == "urn:tracegrade:problem:busy"
            with pytest.raises(Refused, match=str(status)), opened(site.url):
                pass
            with urlopen(f"{site.url}/rules", timeout=WITHIN_S) as answer:
                assert answer.status == 200
            client.say('{"type": "ping"}')
            assert client.read() == {"type": "pong"}
            stream.close()
        eventually(lambda: _is_free(site) and _is_free(site), "the streams of clients that went")


def test_readers_that_are_slow_hold_nobody_up(here: Place) -> None:
    """Eight that never read a byte, and one that does."""
    with page(here) as site, ExitStack() as stack, here.working():
        for _ in range(8):
            stack.enter_context(opened(site.url))
        job = here.submit("m-1", "m-2", repeat=50)
        events = list(Stream(site, job.id).read())
    assert names(events).count("tool_eval_result") == 100
    assert events[-1]["type"] == "job_completed"


def test_callers_without_the_right_to_see_values_get_scores_alone(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "stored_unit", _not_asked)
    monkeypatch.setattr(rights, "KNOWN", Caller(frozenset({"read", "run"})))
    with page(here) as site, here.working():
        (result,) = [
            event for event in Stream(site, here.submit("m-1").id).read() if event["type"] == "tool_eval_result"
        ]
    assert result["overall_score"] == 1.0
    assert not result.keys() & {"trace_id", "actual_tool", "actual_params", "prompt", "calls"}


def test_of_a_result_that_was_deleted_the_scores_stay(here: Place, engine: Engine) -> None:
    with page(here) as site, here.working():
        job = here.submit("m-1")
        here.until(job.id, "done")
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM traces")
        (result,) = [event for event in Stream(site, job.id).read() if event["type"] == "tool_eval_result"]
    assert result["overall_score"] == 1.0
    assert "actual_tool" not in result


def test_what_one_stream_read_of_a_trace_others_do_not_read_again(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[Any, ...]] = []
    real = job_events.stored_unit

    def counted(connection: Any, *unit: Any) -> Any:
        reads.append(unit)
        return real(connection, *unit)

    monkeypatch.setattr(job_events, "stored_unit", counted)
    with page(here) as site, here.working():
        job = here.submit("m-1", "m-2")
        here.until(job.id, "done")
        for _ in range(3):
            results = [event for event in Stream(site, job.id).read() if event["type"] == "tool_eval_result"]
            assert [event["actual_tool"] for event in results] == ["get_weather", "get_weather"]
        assert len(reads) == 2
        monkeypatch.setattr(job_events, "_SHARED_FOR_S", 0.0)
        list(Stream(site, job.id).read())
    assert len(reads) == 4


def test_one_look_at_the_store_serves_all_streams(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = job_events.newest_events

    def counted(*arguments: Any) -> Any:
        looks.append(threading.get_ident())
        return real(*arguments)

    job = here.submit("m-1")
    with page(here) as site, ExitStack() as stack:
        clients = [stack.enter_context(opened(site.url, f"/ws?job={job.id}")) for _ in range(10)]
        assert {client.read()["type"] for client in clients} == {"job_created"}
        monkeypatch.setattr(job_events, "newest_events", counted)
        monkeypatch.setattr(job_events, "LOOK_EVERY_S", 0.05)
        eventually(lambda: len(looks) > 5, "looks")
        before = len(looks)
        cancel(here.config, "default", job.id)
        assert {client.read()["type"] for client in clients} == {"job_cancelled"}
        assert len(looks) - before < 40


def _all(client: Client) -> list[Any]:
    found = []
    while (event := client.read()) is not None:
        found.append(event)
    return found


def _is_free(site: Site) -> bool:
    try:
        with opened(site.url):
            return True
    except Refused:
        return False


def _not_asked(*arguments: Any) -> Any:
    raise AssertionError("a trace was read")
