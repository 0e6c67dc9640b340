import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from build import store_with
from build.judged_traces import judged, trace_id
from build.otlp import agent_span, payload, tool_span
from build.stored_alerts import ALERT, store_incident
from tracegrade.store.files import sqlite_url
from tracegrade.store.open import open_store

SERVERS = ("grpc", "starlette", "fastapi", "uvicorn", "sqlalchemy", "requests", "opentelemetry", "asyncio", "jinja2")
# What some rules need, or reading them: loaded when they do.
SELDOM = ("yaml", "jsonschema_rs", "rapidfuzz", "cel")


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_evaluators_work_without_servers_and_without_what_few_rules_use() -> None:
    score, *loaded = _run(
        f"""
        import sys
        from tracegrade.evaluate.evaluator import Evidence
        from tracegrade.evaluate.registry import EVALUATORS
        from tracegrade.model.tool_call import ToolCall
        call = ToolCall("search", "search", None, {{}}, "ok", None, "absent", None, 0, 0, "", "", "")
        order = EVALUATORS["tool-call-order"]
        criteria = order.read_criteria({{"tool_calls_order": ["search", "book"]}})
        score = order.evaluate(Evidence([call]), criteria, order.Settings()).score
        print(score, *(name for name in {SERVERS + SELDOM!r} if name in sys.modules))
        """
    ).split()
    assert score == "0.5"
    assert loaded == []


def test_the_front_door_loads_nothing_that_it_does_not_need() -> None:
    loaded = _run(
        """
        import sys
        import tracegrade
        print([name for name in ("pydantic", "tracegrade.evaluate.registry", "yaml") if name in sys.modules])
        """
    )
    assert loaded == "[]"


# What showing what is stored does without; each, with what it imports in turn, is some hundredths of such a command.
# asyncio, ssl, importlib.metadata and what they need are not among them: SQLAlchemy imports them.
UNREAD = (
    "pydantic", "yaml", "re2", "grpc", "opentelemetry", "jsonschema_rs", "google.protobuf", "alembic",
    "sqlalchemy.orm", "sqlalchemy.dialects.postgresql",
    "tracegrade.config", "tracegrade.match", "tracegrade.evaluate", "tracegrade.extract.registry", "tracegrade.journal",
)  # fmt: skip
READS = [
    "results list", "results list --since 1h --format json", "results export", "results stats", "traces list",
    "traces list --outcome fail --until 2026-01-01", "alerts list", "alerts list --format json",
    "alerts silence --list", f"results show {trace_id(1)}", f"traces show {trace_id(1)}",
]  # fmt: skip

READS_SPANS = f"traces show {trace_id(1)}"
LAID_OUT_BY_RICH = ["alerts list", READS_SPANS]  # cells of several lines, trees


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    store_with(tmp_path, judged(1))
    engine = open_store(sqlite_url(tmp_path))
    with engine.begin() as connection:
        store_incident(connection, ALERT)
    engine.dispose()
    return tmp_path


def _loaded_by(*commands: list[str]) -> list[list[str]]:
    """All modules that there are after each of these commands of one process, but those that others only stand for."""
    lines = _run(
        f"""
        import contextlib, os, sys
        from tracegrade.cli import main
        for command in {commands!r}:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                main(command, standalone_mode=False)
            print(*(name for name, loaded in sys.modules.items() if type(loaded) is type(sys)))
        """
    ).splitlines()
    return [line.split() for line in lines]


def test_the_help_of_what_is_stored_loads_neither_settings_nor_sql() -> None:
    commands = [[command, "list", "--help"] for command in ("results", "traces", "alerts")]
    for command, loaded in zip(commands, _loaded_by(*commands), strict=True):
        assert [name for name in ("pydantic", "sqlalchemy", "yaml", "rich") if name in loaded] == [], command


def test_showing_what_is_stored_loads_little(data_dir: Path) -> None:
    commands = sorted(READS, key=LAID_OUT_BY_RICH.__contains__)
    after = _loaded_by(*([*command.split(), "--data-dir", str(data_dir)] for command in commands))
    for command, loaded in zip(commands, after, strict=True):
        assert "sqlalchemy" in loaded
        dialects = {"tracegrade.extract.registry"} if command == READS_SPANS else set()
        assert {name for name in UNREAD if name in loaded} == dialects, command
        if command not in LAID_OUT_BY_RICH:
            assert "rich.console" not in loaded, command


# What reading the calls of files does without.
UNREAD_OF_FILES = (
    "pydantic", "yaml", "re2", "sqlalchemy", "grpc", "jsonschema_rs", "tracegrade.config",
    "tracegrade.assemble.settings", "tracegrade.judge", "tracegrade.match.select", "tracegrade.rule.rule",
    "tracegrade.evaluate.evaluator", "tracegrade.journal.reader", "tracegrade.telemetry.metrics",
)  # fmt: skip


@pytest.mark.parametrize("form", ["table", "json"])
def test_reading_calls_from_files_loads_neither_settings_nor_what_judges(tmp_path: Path, form: str) -> None:
    file = tmp_path / "trace.binpb"
    file.write_bytes(payload([agent_span(1, 1), tool_span(1, 2, 1, "search")]))
    (loaded,) = _loaded_by(["extract", str(file), "--format", form])
    assert "tracegrade.extract.extract" in loaded
    assert [name for name in UNREAD_OF_FILES if name in loaded] == []


RULE = "id: quiet\ntitle: T\nlevel: low\nscope: agent\nevaluate: [{evaluator: budget, max_errors: 3}]\n"
# What is needed only for a store, or for sections of the settings that few have.
OF_SECTIONS = ("sqlalchemy", "asyncio", "starlette", "uvicorn", "opentelemetry.proto", "tracegrade.sensitive.registry")


def test_rules_and_settings_are_checked_without_what_they_do_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # without a store
    (tmp_path / "rule.yaml").write_text(RULE)
    (tmp_path / "config.yaml").write_text("rules: {paths: [rule.yaml]}\n")
    rules, settings = _loaded_by(["rules", "check", "rule.yaml"], ["config", "check", "config.yaml"])
    assert "tracegrade.config" in settings
    for loaded in (rules, settings):
        assert "tracegrade.evaluate.registry" in loaded
        assert [name for name in OF_SECTIONS if name in loaded] == []


def test_a_settings_file_is_checked_without_what_its_settings_are_for(data_dir: Path) -> None:
    file = data_dir / "config.yaml"
    file.write_text(f"data_dir: {data_dir}\ntraces: {{settle: 3s}}\njournal: {{max_age: 2d}}\n")
    (loaded,) = _loaded_by(["results", "list", "-c", str(file)])
    assert "tracegrade.config" in loaded
    others = (
        "re2",
        "grpc",
        "opentelemetry",
        "tracegrade.journal.local",
        "tracegrade.evaluate.registry",
    )
    assert [name for name in others if name in loaded] == []


def test_a_role_starts_without_what_it_may_never_need() -> None:
    receives, judges = _run(
        """
        import sys
        import tracegrade.serve.receive_role
        print(*sys.modules)
        import tracegrade.serve.judge_role
        print(*sys.modules)
        """
    ).splitlines()
    assert [name for name in ("sqlalchemy", "requests", "jinja2", "fastapi") if name in receives.split()] == []
    assert [name for name in ("requests", "jinja2", "fastapi") if name in judges.split()] == []
