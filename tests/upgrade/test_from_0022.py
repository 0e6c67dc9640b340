"""A data folder as the first version of the tables left it: read, replayed and continued by this one."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, inspect

from build import store_with
from build.canonical import canonical_line
from build.otlp import payload, tool_span
from build.served import Server, export
from tracegrade.cli import main
from tracegrade.codec.results import decode_result
from tracegrade.journal.reader import JournalReader
from tracegrade.store import schema
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.tallies import RATED_BY, tallies
from tracegrade.store.write import StoreWriter
from waiting import eventually

pytestmark = pytest.mark.long

CHECKED = "order-without-check"


class Folder:
    """A data folder as that version left it, and what it said of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(Path(__file__).with_name("0022.tar.xz")) as archive:
            archive.extractall(path, filter="data")
        self.data = path / "data"
        self.url = f"sqlite:///{self.data / 'tracegrade.db'}"
        self.rules = path / "rules"
        settings = {"data_dir": str(self.data), "rules": {"paths": [str(self.rules)]}}
        (path / "config.yaml").write_text(json.dumps(settings))
        open_store(self.url, update=True).dispose()

    def said(self, name: str) -> list[dict[str, Any]]:
        """What that version printed."""
        return [json.loads(line) for line in (self.path / "said" / f"{name}.jsonl").read_text().splitlines()]

    def says(self, *command: str) -> list[dict[str, Any]]:
        """What this one prints."""
        result = CliRunner().invoke(main, [*command, "--format", "json", "-c", str(self.path / "config.yaml")])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.output.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_was_listed_is_listed_as_it_was(folder: Folder) -> None:
    for name in ("results", "alerts", "traces"):
        said, says = folder.said(name), folder.says(name, "list")
        # What later versions say beside it is compared with nothing.
        says = [{key: item[key] for key in known} for known, item in zip(said, says, strict=True)]
        assert says == said, name


def test_the_journal_gives_what_it_gave(folder: Folder) -> None:
    """All but the sentences, which each version writes in its own words."""
    said, says = folder.said("replay"), folder.says("replay", "--jobs", "1")
    for evaluation in (*said, *says):
        assert evaluation.pop("explanation") is not None
    assert sorted(map(canonical_line, says)) == sorted(map(canonical_line, said))


def test_its_tables_are_those_of_a_new_store(folder: Folder, tmp_path: Path) -> None:
    def tables(url: str) -> dict[str, Any]:
        engine = open_store(url, read_only=True)
        found = inspect(engine)
        shown = {
            name: (
                {column["name"]: str(column["type"]) for column in found.get_columns(name)},
                {index["name"]: index["column_names"] for index in found.get_indexes(name)},
            )
            for name in (*found.get_table_names(), *found.get_view_names())
        }
        engine.dispose()
        return shown

    assert tables(folder.url) == tables(store_with(tmp_path / "new"))


def test_results_that_were_not_yet_delivered_are_stored(folder: Folder) -> None:
    reader = JournalReader(folder.data / "results", name="results")
    records = [decode_result(record.payload) for record in reader.read(reader.first(), 1 << 24)]
    reader.close()
    before = _rates(engine := open_store(folder.url))
    with engine.begin() as connection:
        connection.execute(schema.traces.delete())
        connection.execute(schema.counts.delete())
    StoreWriter(engine).write(records)
    assert _rates(engine) == before
    engine.dispose()


def _rates(engine: Engine) -> dict[Any, tuple[int, ...]]:
    with reading(engine) as connection:
        found = tallies(connection, ResultFilter(), RATED_BY)
    return {key: (rate.passed, rate.failed, rate.not_evaluable, rate.errors) for key, rate in found.items()}


def test_serve_goes_on_where_the_earlier_version_stopped(folder: Folder, tmp_path: Path) -> None:
    server = Server(
        tmp_path,
        rules={"paths": [str(folder.rules)], "reload": "100ms"},
        traces={"settle": "300ms", "idle_timeout": "1s", "reopen_for": "87600h", "max_age": "1h"},
        store={"retention": "87600h"},
        journal={"max_age": "87600h"},
    )
    server.start()
    try:
        export(server.endpoints["grpc"], payload([tool_span(4, 9, 1, "check_inventory")]))
        config = ("-c", str(server.config), "--format", "json")

        def trace_4() -> dict[str, Any] | None:
            shown = server.cli("results", "show", f"{4:032x}", *config).stdout.splitlines()
            found = [json.loads(line) for line in shown]
            return next((item for item in found if item["rule_id"] == CHECKED and item["revision"] == 3), None)

        eventually(trace_4, "the old trace in a higher revision")
        rates = [json.loads(line) for line in server.cli("results", "stats", *config).stdout.splitlines()]
        (rate,) = [rate for rate in rates if (rate["rule_id"], rate["evaluation"]) == (CHECKED, "")]
        assert rate["passed"] + rate["failed"] == 6, "the revision took back what the earlier version counted"
    finally:
        server.stop()
