"""What senders write never steers the terminal, the editor or the spreadsheet of who reads it.

A real ``serve`` is sent a trace whose every text holds an escape sequence, its one-character form, a text written from
right to left, a line end and a formula; every command that shows any of it is run.
"""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from build.otlp import otlp_span, payload
from build.served import Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long

HOSTILE = "=cmd|'/c calc'!A1\x1b]0;owned\x07\x9b31m\u202egnp\u2066\x85\u2028x\r\n✓ pass  all-is-well"
TRACE = 7
TRACE_ID = TRACE.to_bytes(16, "big").hex()
RULE = """
id: never-fails
evaluate: [{evaluator: tool-call-order, tool_calls_order: [pay]}]
"""
READERS = [
    "traces list",
    f"traces show {TRACE_ID}",
    "results list",
    f"results show {TRACE_ID}",
    "results stats",
    f"why {TRACE_ID}",
    "doctor",
    "replay",
]
REPORTS = ["junit", "sarif", "markdown"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "rule.yaml").write_text(RULE)
    agent = otlp_span(
        TRACE,
        1,
        end=1000,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name=HOSTILE,
        gen_ai__conversation__id=HOSTILE,
    )
    tool = otlp_span(
        TRACE,
        2,
        1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=HOSTILE,
        gen_ai__tool__call__id=HOSTILE,
        gen_ai__tool__call__arguments=json.dumps({HOSTILE: HOSTILE}),
        gen_ai__tool__call__result=HOSTILE,
    )
    unread = otlp_span(TRACE, 3, 1, tool__unknown=HOSTILE)
    for span in (agent, tool, unread):
        span.name = HOSTILE
        span.status.code = 2
        span.status.message = HOSTILE
    with served(folder, rules={"paths": [str(folder / "rule.yaml"), "builtin:default"]}) as started:
        export(started.endpoints["grpc"], payload([agent, tool, unread], HOSTILE))
        config = str(started.config)
        eventually(lambda: TRACE_ID in started.cli("results", "list", "-c", config).stdout, "the results")
        yield started


def shown(server: Server, command: str, *options: str) -> str:
    ran = server.cli(*command.split(), *options, "-c", str(server.config))
    assert ran.exit_code in (0, 1), ran.stderr
    return ran.stdout


def assert_printable(text: str) -> None:
    odd = {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert not odd, f"{odd} in {text}"


@pytest.mark.parametrize("output_format", ["table", "json"])
@pytest.mark.parametrize("command", READERS)
def test_nothing_that_a_terminal_obeys_is_printed(server: Server, command: str, output_format: str) -> None:
    text = shown(server, command, "--format", output_format)
    assert_printable(text)
    assert text.strip()


@pytest.mark.parametrize("command", ["traces list", f"traces show {TRACE_ID}", f"results show {TRACE_ID}", "replay"])
def test_no_line_is_forged(server: Server, command: str) -> None:
    assert not re.search(r"^✓ pass  all-is-well", shown(server, command), re.MULTILINE)


@pytest.mark.parametrize("output_format", REPORTS)
def test_reports_are_printable_and_whole(server: Server, output_format: str) -> None:
    text = shown(server, "replay", "--format", output_format)
    assert_printable(text)
    if output_format == "junit":
        assert ElementTree.fromstring(text).findall("testsuite")


def test_json_keeps_every_character(server: Server) -> None:
    (head,) = map(json.loads, shown(server, "traces list", "--format", "json").splitlines())
    assert head["service"] == HOSTILE
    exported = shown(server, "results export").splitlines()
    assert {json.loads(line)["agent"] for line in exported} == {HOSTILE}
    for line in exported:
        assert_printable(line)


def test_exported_traces_are_printable_and_whole(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(shown(server, f"traces export {TRACE_ID}"))
    assert_printable(file.read_text())
    extracted = server.cli("extract", str(file), "--format", "json").stdout
    assert_printable(extracted)
    (call,) = json.loads(extracted)["tool_calls"]
    assert (call["name"], call["arguments"], call["output"]) == (HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
    assert_printable(server.cli("extract", str(file)).stdout)


def test_no_cell_of_an_export_is_a_formula(server: Server) -> None:
    text = shown(server, "results export", "--format", "csv")
    assert_printable(text)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows
    for row in rows:
        assert row["agent"].startswith("'=cmd|")
        for cell in row.values():
            assert cell[:1] not in ("=", "+", "@", "\t", "＝")
            assert not cell.startswith("-") or float(cell) <= 0


def test_the_log_is_printable(server: Server) -> None:
    assert_printable(server.log)
