"""Parquet files in a bucket."""

import asyncio
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from build import each
from build.s3_server import BUCKET, S3Server
from tracegrade.deliver.cut import Cut
from tracegrade.deliver.parquet.erase import delete_days_before, erase
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import ParquetError, Storage, check_place
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.deliver.sinks.parquet import ParquetSink

parquet = pytest.importorskip("pyarrow.parquet")

DAY_NS = 86_400 * 10**9
FIRST, SECOND = "aa" * 16, "bb" * 16


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    found = S3Server()
    yield found
    found.stop()


@pytest.fixture
def settings(server: S3Server, request: pytest.FixtureRequest) -> ParquetSettings:
    """Of a prefix that is empty."""
    server.prefix = request.node.name
    return ParquetSettings(**server.section)


def write(settings: ParquetSettings, folder: Path, *batch: Any, begin: int = 0) -> Delivery:
    async def run() -> Delivery:
        sink = ParquetSink(settings, Storage(settings), folder, "here", frozenset)
        await sink.deliver(batch)
        delivery = await sink.write(Cut(begin, begin + 1))
        await sink.close()
        return delivery

    return asyncio.run(run())


def ids(server: S3Server) -> list[str]:
    found = []
    for name in server.names():
        with server.files().open_input_file(server.path(name)) as file:
            found += [row["judged_id"] for row in parquet.ParquetFile(file).read().to_pylist()]
    return sorted(found)


def test_a_cut_is_written_and_written_again_into_the_same_objects(
    server: S3Server, settings: ParquetSettings, tmp_path: Path, judged
) -> None:
    check_place(settings)
    for _ in range(2):
        batch = (judged({}, trace_id=FIRST), judged({}, trace_id=SECOND, tenant="a/b"))
        assert write(settings, tmp_path, *batch, begin=12) == DONE
    assert server.names() == [
        "results/tenant=a%2Fb/date=1970-01-01/here-results-00000000000000000012.parquet",
        "results/tenant=default/date=1970-01-01/here-results-00000000000000000012.parquet",
    ]
    assert ids(server) == [FIRST, SECOND]


def test_deleted_traces_leave_the_bucket(server: S3Server, settings: ParquetSettings, tmp_path: Path, judged) -> None:
    write(settings, tmp_path, judged({}, trace_id=FIRST), judged({}, trace_id=SECOND))
    write(settings, tmp_path, judged({}, {"evaluation": "b"}, trace_id=FIRST), begin=1)
    assert erase(settings, tmp_path, {bytes.fromhex(FIRST)}) == {FIRST: 3}
    assert ids(server) == [SECOND]
    assert server.names() == ["results/tenant=default/date=1970-01-01/here-results-00000000000000000000.parquet"]
    assert erase(settings, tmp_path, {bytes.fromhex(FIRST)}) == {}


def test_old_days_leave_the_bucket(server: S3Server, settings: ParquetSettings, tmp_path: Path, judged) -> None:
    write(
        settings,
        tmp_path,
        judged({}, trace_id=FIRST),
        judged({}, trace_id=FIRST, tenant="b"),
        judged({}, trace_id=SECOND, first_received_ns=DAY_NS),
    )
    assert delete_days_before(Storage(settings), date(1970, 1, 2)) == 2
    assert ids(server) == [SECOND]


def test_a_bucket_that_is_not_there_is_named(settings: ParquetSettings) -> None:
    with pytest.raises(ParquetError, match=r"^parquet.url: there is no bucket 'other-results'; create it, or name"):
        check_place(settings.model_copy(update={"url": "s3://other-results/x"}))


@each(
    ("status", "expected"),
    [
        (403, "the bucket 'agent-results' refuses these keys; set parquet.s3.access_key_id"),
        (301, "the bucket 'agent-results' is in another region; set parquet.s3.region"),
    ],
)
def test_a_bucket_that_will_never_answer_otherwise_is_a_mistake(status: int, expected: str) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        s3 = {"endpoint": f"http://127.0.0.1:{server.server_port}", "region": "us-east-1"}
        keys = {"access_key_id": "test", "secret_access_key": "test"}
        with pytest.raises(ParquetError, match=f"^parquet.url: {expected}"):
            check_place(ParquetSettings(url=f"s3://{BUCKET}/x", s3=s3 | keys))
        server.shutdown()


def test_a_server_that_is_away_is_no_mistake_and_its_rows_wait(tmp_path: Path, judged) -> None:
    away = S3Server()
    settings = ParquetSettings(**away.section)

    async def run() -> tuple[Delivery, Delivery]:
        sink = ParquetSink(settings, Storage(settings), tmp_path, "here", frozenset)
        await sink.deliver([judged({}, trace_id=FIRST)])
        away.stop()
        check_place(settings)
        refused = await sink.write(Cut(0, 1))
        away.start()
        taken = await sink.write(Cut(0, 1))
        await sink.close()
        return refused, taken

    try:
        assert asyncio.run(run()) == (Delivery("retry", "storage_unavailable"), DONE)
        assert ids(away) == [FIRST]
    finally:
        away.stop()
