"""Parquet files of a real serve: every result of the results journal, once, whatever was killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from end_to_end.test_deletion import delete
from reliability.load import count_stored, send

from build.everything import places_of
from build.otlp import payload, spans_of
from build.parquet_files import names, rows
from build.s3_server import BUCKET, S3Server
from build.served import Server, alive, export, served
from build.served_folder import id_of, secret_trace
from tracegrade.access.tokens import new_token
from tracegrade.codec.results import decode_result
from tracegrade.journal.reader import JournalReader
from tracegrade.store.open import open_store
from waiting import eventually

pytestmark = pytest.mark.long


def in_journal(server: Server) -> Counter[str]:
    """The ids of the evaluations in the results journal, and how often each is there."""
    reader = JournalReader(server.data / "results")
    found: Counter[str] = Counter()
    position = reader.first()
    while records := reader.read(position):
        found.update(item.id for record in records for item in decode_result(record.payload).evaluations)
        position = records[-1].end
    reader.close()
    return found


def in_files(folder: Path) -> Counter[str]:
    return Counter(row["id"] for row in rows(folder, "results"))


def test_whenever_the_judge_is_killed_the_files_hold_what_was_judged(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    folder = tmp_path / "parquet"
    server = Server(tmp_path, parquet={"url": str(folder), "every": "20ms", "max_rows": 30})
    server.start()
    kills, answered = 3 * pytestconfig.getoption("kills"), 0
    for number in range(kills):
        answered += len(send(server, 10, 1 + answered))
        before = len(names(folder))
        if number % 2:
            eventually(lambda before=before: len(names(folder)) > before, "files to be written", 60)
        else:
            eventually(lambda some=answered - 50: count_stored(server) > some, "results")
        judge = server.judge_pid
        os.kill(judge, signal.SIGKILL)
        eventually(lambda judge=judge: not alive(judge), "the judge to be gone")
        if number % 3 == 2:
            server.kill()
            server.start()
    eventually(lambda: count_stored(server) == answered, "all traces", 60)
    eventually(lambda: in_files(folder).total() >= in_journal(server).total(), "all files", 60, every_s=0.2)
    eventually(lambda: all(name.endswith(".parquet") for name in names(folder)), "what kills left to be removed")
    assert server.stop() == 0
    written = in_files(folder)
    assert len(written) == 4 * answered
    assert written == in_journal(server)
    calls = Counter((row["trace_id"], row["number"]) for row in rows(folder, "tool_calls"))
    assert len(calls) == 3 * answered


def test_a_running_serve_deletes_from_files_and_from_what_waits_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    with served(tmp_path, parquet={"url": str(folder), "every": "300ms", "include_values": True}) as server:
        for number in (1, 2):
            export(server.endpoints["grpc"], payload(spans_of(secret_trace(number, f"secret-{number}"))))
        eventually(lambda: "secret-2" in repr(rows(folder, "tool_calls")), "files")
        done = json.loads(delete(server, id_of(1).hex(), "--format", "json").stdout)
        assert done["state"] == "done"
        assert done["deleted"]["parquet_rows"] > 0
        found = repr([*rows(folder, "tool_calls"), *rows(folder, "results")])
        assert "secret-1" not in found
        assert "secret-2" in found
    # One that only waits in memory.
    server = Server(tmp_path, parquet={"url": str(folder), "every": "1h", "include_values": True})
    server.start()
    export(server.endpoints["grpc"], payload(spans_of(secret_trace(3, "secret-3"))))
    eventually(lambda: count_stored(server) == 2, "another trace")
    shown = delete(server, id_of(3).hex())
    assert "\n  parquet  0 rows" in shown.stdout
    server.stop()
    assert "secret-3" not in repr(rows(folder, "tool_calls"))


def test_of_one_tenant_nothing_is_left_in_files_and_of_the_other_all(tmp_path: Path) -> None:
    """Both send the same trace id, of the same session and user; what is packed is looked into, too."""
    folder, tokens = tmp_path / "parquet", {}
    (tmp_path / "data").mkdir()
    for tenant in ("acme", "globex"):
        path = tmp_path / "data" / "tokens.json"
        _, tokens[tenant] = new_token(path, tenant, ["send"], tenant, None, time.time_ns())
    grpc = {"endpoint": "127.0.0.1:0", "auth": {}}
    settings = {
        "parquet": {"url": str(folder), "every": "300ms", "include_values": True},
        "receivers": {"otlp": {"protocols": {"grpc": grpc, "http": {"endpoint": "127.0.0.1:0"}}}},
    }

    def in_files() -> dict[str, bool]:
        """Whether each tenant's secret stands in its own folders; and that it does in no other."""
        found = [*rows(folder, "tool_calls"), *rows(folder, "results")]
        for row in found:
            (own,) = (tenant for tenant in tokens if row["folder"].startswith(f"tenant={tenant}/"))
            (other,) = tokens.keys() - {own}
            assert f"what-{other}-says" not in repr(row)
        return {tenant: any(f"what-{tenant}-says" in repr(row) for row in found) for tenant in tokens}

    with served(tmp_path, **settings) as server:
        for tenant, token in tokens.items():
            for number in (1, 2):
                spans = spans_of(secret_trace(number, f"what-{tenant}-says", "one-session", "one-user"))
                export(server.endpoints["grpc"], payload(spans), authorization=f"Bearer {token}")
        eventually(lambda: all(in_files().values()) and len(rows(folder, "tool_calls")) >= 8, "files of both")
        delete(server, id_of(1).hex(), "--tenant", "acme")
        assert in_files() == {"acme": True, "globex": True}
        delete(server, "--user", "one-user", "--tenant", "acme")
        eventually(lambda: in_files() == {"acme": False, "globex": True}, "the files of one")
    engine = open_store(f"sqlite:///{server.data / 'tracegrade.db'}")
    assert places_of(server.data, engine, ["what-acme-says"], []) == {}
    assert places_of(server.data, engine, ["what-globex-says"], []).keys() >= {"journal", "traces"}
    engine.dispose()
    assert [name for name in names(folder) if "tenant=acme" in name] == []
    assert len([row for row in rows(folder, "tool_calls") if row["folder"].startswith("tenant=globex/")]) >= 4


def test_a_bucket_that_is_away_is_a_condition_and_loses_nothing(tmp_path: Path) -> None:
    s3 = S3Server()
    try:
        with served(tmp_path, parquet=s3.section | {"every": "100ms"}) as server:
            send(server, 1)
            eventually(s3.names, "objects", 60)
            s3.stop()
            send(server, 1, 100)
            eventually(lambda: count_stored(server) == 10, "results in the store, which does not wait")
            eventually(lambda: "parquet_failing" in server.page(), "the condition", 60)
            s3.start()  # an empty one: what was durable is its own matter
            eventually(s3.names, "objects", 90)
            eventually(lambda: 'parquet_failing"' not in server.page(), "the condition to end", 60)
    finally:
        s3.stop()


def refusal(folder: Path, **section: Any) -> str:
    """What a serve with this section ends with."""
    server = Server(folder, parquet=section)
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    version, line = done.stderr.splitlines()
    assert version.startswith("TraceGrade ")
    return line


def test_a_folder_that_cannot_be_written_to_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    url = str(tmp_path / "file" / "parquet")
    assert refusal(tmp_path, url=url) == (
        f"Error: parquet.url: cannot write to '{url}': File exists; expected a folder that this user may write to, "
        "made if missing"
    )


def test_a_bucket_that_is_not_there_refuses_the_start(tmp_path: Path) -> None:
    s3 = S3Server()
    try:
        assert refusal(tmp_path, **s3.section | {"url": f"s3://{BUCKET}-2/x"}) == (
            f"Error: parquet.url: there is no bucket '{BUCKET}-2'; create it, or name another"
        )
    finally:
        s3.stop()
