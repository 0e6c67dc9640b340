"""A store that an earlier version wrote is brought up to date, and keeps what it holds."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import Connection, MetaData, Table, create_engine, func, select, text

from build import rest_long, store_with
from build.engines import BACKENDS, POSTGRESQL, without_tables
from build.judged_traces import AGENT_SPAN, judged, spans, trace_id
from build.stored_alerts import ALERT, store_incident
from build.stored_runs import begin, run_of
from tracegrade.cli import main
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store import migrations, schema
from tracegrade.store.open import StoreError, open_store, reading
from tracegrade.store.rates import rates
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Experiment, experiment_with_id, runs_of_eval, stored_experiments
from tracegrade.store.write import StoreWriter

SCRIPTS = Path(migrations.__file__).parent
VERSIONS = sorted(script.revision for script in ScriptDirectory(str(SCRIPTS)).walk_revisions())
# What a column was called in earlier versions: by table, then by what it is called now.
RENAMED = {"alerts": {"bound": "below"}}


def upgrade(connection: Connection, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def upgrade_store(url: str, version: str) -> None:
    """Make the tables of `version`, or bring those of an earlier one to it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, version)
    engine.dispose()


THREE = [judged(1), judged(2, "fail"), judged(3, "not_evaluable")]


def store_of_version(version: str, url: str, tmp_path: Path, records: Sequence[TraceResult] = THREE) -> None:
    """A store at `url` as `version` left it: today's rows, as far as its tables had columns for them."""
    today = open_store(store_with(tmp_path / "today", *records))
    with today.begin() as connection:
        store_incident(connection, ALERT)
    engine = create_engine(url)
    with engine.begin() as connection, today.connect() as source:
        upgrade(connection, version)
        metadata = MetaData()
        metadata.reflect(connection)
        for table in schema.metadata.sorted_tables:
            if table.name in metadata.tables:
                rows = [row._asdict() for row in source.execute(select(table))]
                if table.name == "counts" and version < "0006":
                    rows = [row for row in rows if row["minutes"] < schema.DAY_MINUTES]
                if table.name == "blocks" and version < "0007":
                    rows = [earlier for row in rows for earlier in _rows_of_one_block(row)]
                _insert(connection, metadata.tables[table.name], rows)
        if connection.dialect.name == "postgresql":
            _number_as_stored(connection, version)
    engine.dispose()
    today.dispose()


def _number_as_stored(connection: Connection, version: str) -> None:
    """What that version's writer would have left of the numbers of traces."""
    if version >= "0014":
        connection.execute(text("SELECT setval('trace_numbers', (SELECT max(number) FROM traces))"))
    if version >= "0016":
        names = "trace_id, tenant, run, number, revision"
        connection.execute(text(f"INSERT INTO trace_keys ({names}) SELECT {names} FROM traces"))


def _rows_of_one_block(row: dict[str, int]) -> Iterator[dict[str, int]]:
    """`row` of ``blocks`` as it was when each block had one of its own."""
    for place in range(schema.CHUNK_BLOCKS):
        if row["held"] >> place & 1:
            yield {**row, "block": row["chunk"] * schema.CHUNK_BLOCKS + place}


def _insert(connection: Connection, table: Table, rows: list[dict[str, object]]) -> None:
    earlier_names = RENAMED.get(table.name, {})
    for row in rows:
        for now, earlier in earlier_names.items():
            row.setdefault(earlier, row[now])
        if "notified" in table.c:
            row.setdefault("notified", {"pager": {"state": "firing", "time_ns": 1, "tries": 0, "error": ""}})
        connection.execute(table.insert().values({name: row[name] for name in row if name in table.c}))


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tracegrade.db'}"
    else:
        without_tables(POSTGRESQL)
        yield POSTGRESQL
        without_tables(POSTGRESQL)


def run(url: str, tmp_path: Path, *arguments: str) -> tuple[int, str]:
    (tmp_path / "config.yaml").write_text(f"data_dir: {tmp_path}\nstore: {{url: '{url}'}}\n")
    result = CliRunner().invoke(main, [*arguments, "-c", str(tmp_path / "config.yaml")])
    return result.exit_code, result.output


# The earliest meets every migration, and with the one in the middle each that moves rows has met some of its own.
USUAL = (VERSIONS[0], VERSIONS[len(VERSIONS) // 2])


@pytest.mark.parametrize("version", rest_long(VERSIONS, USUAL))
def test_a_store_of_any_earlier_version_is_brought_up_to_date_and_read(
    version: str, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store_of_version(version, url, tmp_path)
    caplog.set_level("INFO", "tracegrade.store.open")
    engine = open_store(url, update=True)
    said = f": bringing tables of version {version} up to date ({VERSIONS[-1]})"
    assert [said in message for message in caplog.messages] == ([] if version == VERSIONS[-1] else [True, False])
    with reading(engine) as connection:
        (rate,) = rates(connection, ResultFilter()).values()
        by_minute = select(func.sum(schema.counts.c.score_squares)).where(schema.counts.c.minutes == 1)
        squares = connection.execute(by_minute).scalar_one()
        by_day = select(func.sum(schema.counts.c.score_squares)).where(schema.counts.c.minutes == schema.DAY_MINUTES)
        assert connection.execute(by_day).scalar_one() == squares
    assert (rate.passed, rate.failed, rate.not_evaluable, rate.passes.total) == (1, 1, 1, 1.0)
    # Scores of 1 and 0.25; where squares were not yet kept, as if scores lay as far apart as they can.
    assert squares == (1.25 if version < "0003" else 1.0625)
    StoreWriter(engine).write([judged(2, "pass", revision=3), judged(4)])
    with reading(engine) as connection:
        (rate,) = rates(connection, ResultFilter()).values()
    assert (rate.passed, rate.failed, rate.not_evaluable) == (3, 0, 1), "a revision takes back what was counted before"
    begin(engine, "tuning/1")
    StoreWriter(engine).write([judged(2, "fail", run="tuning/1")])
    with reading(engine) as connection:
        assert [rate.failed for rate in rates(connection, ResultFilter(run="tuning/1")).values()] == [1]
        assert [rate.failed for rate in rates(connection, ResultFilter()).values()] == [0]
    engine.dispose()
    for arguments in (["results", "list"], ["results", "stats"], ["results", "export"], ["traces", "list"]):
        code, output = run(url, tmp_path, *arguments)
        assert code == 0, output
        assert "shop" in output
    code, output = run(url, tmp_path, "alerts", "list", "--format", "json")
    assert code == 0, output
    assert '"bound":0.95' in output


def test_what_agent_runs_took_is_filled_in_from_kept_spans(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = spans(1)
    message = {"role": "user", "parts": [{"type": "text", "content": "Order a  book"}]}
    asked = {"gen_ai.input.messages": json.dumps([message]), "gen_ai.usage.input_tokens": 11}
    kept[0].attributes |= asked | {"gen_ai.usage.output_tokens": 4}
    known = RunSummary(AGENT_SPAN, "as it was judged", model="gpt-4o")
    gone = RunSummary("00f067aa0ba902ff", "no run any more")
    damaged = replace(judged(3, runs=[known]), spans=b"?")
    members = {bytes.fromhex(trace_id(1)): 2}
    session = judged(4, session="chat-1", members=members, evaluations=[])
    before = [replace(judged(1, runs=[known, gone]), spans=encode_spans(kept, [])), judged(2), damaged, session]
    store_of_version("0008", url, tmp_path, before)
    monkeypatch.setattr("tracegrade.store.migrations.versions.v0009_agent_runs._TOGETHER", 1)
    engine = open_store(url, update=True)
    asked_hash = blake2b(b"Order a book", digest_size=8).hexdigest()
    filled = replace(known, prompt_hash=asked_hash, input_tokens=11, output_tokens=4, duration_ns=1_000_000_000)
    with reading(engine) as connection:
        (first,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
        assert first.trace == replace(before[0].trace, runs=[filled, gone])
        assert (first.tool_calls, first.decisions) == (before[0].tool_calls, before[0].decisions)
        (unread,) = stored_traces(connection, bytes.fromhex(trace_id(3)))
        assert unread.trace == damaged.trace
        (own,) = stored_traces(connection, session.trace.own_id)
        assert own.trace == session.trace
        rows = connection.execute(
            text("SELECT trace, span_id, prompt_hash, input_tokens, duration_ns FROM agent_runs ORDER BY trace, place")
        )
        assert [tuple(row) for row in rows] == [
            (1, AGENT_SPAN, asked_hash, 11, 1_000_000_000),
            (1, "00f067aa0ba902ff", None, None, None),
            (3, AGENT_SPAN, None, None, None),
        ]
    engine.dispose()


def test_experiments_get_ids_and_runs_know_their_jobs(url: str, tmp_path: Path) -> None:
    store_of_version("0020", url, tmp_path)
    engine = create_engine(url)
    metadata = MetaData()
    with engine.begin() as connection:
        metadata.reflect(connection)
        for name in ("one", "another"):
            experiment = Experiment("default", name, 1, None, 0)
            _insert(connection, metadata.tables["experiments"], [asdict(experiment)])
        for name, selection in (("one/1", {"job": "a"}), ("one/2", {"model": "m"})):
            run = {**asdict(run_of(name, experiment="one", selection=selection)), "first_number": None}
            _insert(connection, metadata.tables["runs"], [run])
    engine.dispose()
    opened = open_store(url, update=True)
    with reading(opened) as connection:
        found = stored_experiments(connection, "default")
        assert [(item.name, item.own, item.baseline_entry) for item in found] == [
            ("another", False, None),
            ("one", False, None),
        ]
        assert len({item.id for item in found if re.fullmatch("[0-9a-f]{12}", item.id)}) == 2
        assert experiment_with_id(connection, "default", found[1].id) == found[1]
        assert [run.name for run in runs_of_eval(connection, "default", "a")] == ["one/1"]
    opened.dispose()


def test_a_command_says_what_to_do_with_an_older_store_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tracegrade.db"
    for version in VERSIONS[:-1]:
        upgrade_store(f"sqlite:///{path}", version)
        with pytest.raises(StoreError, match="written by an older TraceGrade") as refused:
            open_store(f"sqlite:///{path}", read_only=True)
        with pytest.raises(StoreError, match=re.escape(str(refused.value))):
            open_store(f"sqlite:///{path}")
        assert f"{path}: written by an older TraceGrade (tables of version {version}, this one needs" in str(
            refused.value
        )
        assert "start 'tracegrade serve'" in str(refused.value)
    read = (["results", "list"], ["traces", "list"], ["alerts", "list"], ["why", "00" * 16])
    for arguments in (*read, ["alerts", "silence", "service=shop"]):
        code, output = run(f"sqlite:///{path}", tmp_path, *arguments)
        assert (code, output.strip()) == (2, f"Error: {refused.value}")
