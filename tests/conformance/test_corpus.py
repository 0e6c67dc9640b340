"""Real traces of agent frameworks against what their scripts say happened.

    pytest tests/conformance --corpus DIR

Each capture DIR/FRAMEWORK/NAME.binpb has its NAME.expected.json beside it, written by the run and not from the spans.
The table of results is printed at the end. In the dialects that are read, names and order must be right in every
capture, no call may be seen that was not made, and where content was recorded so must be arguments, results and
failures; what a capture's spans cannot show is listed in `NOT_SHOWN`, with the reason.
"""

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from conformance.corpus_table import CORPUS_ROWS
from tracegrade.extract.across import fold_across
from tracegrade.extract.extract import extract
from tracegrade.model.extraction import Extraction
from tracegrade.model.tool_call import ToolCall
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.whole_traces import read_traces

BESIDE = Path(__file__).parents[3] / "shared" / "corpus"

# Words of `dialect` in expected.json by which a capture is written in a dialect that is read.
DIALECTS_READ = (
    *("gen_ai", "OpenInference", "ADK", "Claude", "Langfuse", "LangSmith", "MLflow", "Haystack", "Vercel"),
    *("OpenLLMetry", "OpenLIT"),
)

# capture -> what its spans do not hold, or not in a form that is read so far.
NOT_SHOWN = {
    "claude-agent-sdk-native/*": "log events leave out what is nested in an argument",
    "autogen/*": "the instrumentation never records content",
}


@dataclass(frozen=True)
class Comparison:
    """How many of a capture's calls were read rightly, by what is compared; -1: not comparable, the names differ."""

    capture: str
    expected: dict[str, Any]
    extractions: list[Extraction]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls read, over all traces in order of start, without doubles."""
        return [call for e in self.extractions for call in e.calls if call.duplicate_of is None]

    @property
    def wanted(self) -> list[dict[str, Any]]:
        """The calls made; a framework's own way to end a run is not always among them."""
        return list(self.expected["tool_calls"])

    def paired(self) -> list[tuple[dict[str, Any], ToolCall]] | None:
        """Wanted and read calls side by side, None when they are not the same in the same order.

        Calls of one model turn have no order of their own: they are paired by arguments.
        """
        calls = [call for call in self.calls if call.name != "final_answer" or self._expects_final_answer()]
        if len(calls) != len(self.wanted):
            return None
        pairs = []
        start = 0
        for _, group in groupby(self.wanted, key=lambda call: (call["run"], call["model_turn"], call["parallel"])):
            wanted = list(group)
            read = calls[start : start + len(wanted)]
            start += len(wanted)
            if any(call.arguments is not None for call in read):
                wanted.sort(key=lambda call: (call["name"], json.dumps(call["arguments"], sort_keys=True)))
                read.sort(key=lambda call: (call.name, json.dumps(call.arguments, sort_keys=True)))
            if [call["name"] for call in wanted] != [call.name for call in read]:
                return None
            pairs += zip(wanted, read, strict=True)
        return pairs

    def _expects_final_answer(self) -> bool:
        return any(call["name"] == "final_answer" for call in self.wanted)

    def right(self) -> dict[str, int]:
        """For each thing compared, how many calls agree."""
        pairs = self.paired()
        if pairs is None:
            return dict.fromkeys(("arguments", "results", "errors", "ids"), -1)
        return {
            "arguments": sum(wanted["arguments"] == call.arguments for wanted, call in pairs),
            "results": sum(bool(wanted["error"]) or wanted["result"] == call.output for wanted, call in pairs),
            "errors": sum((wanted["error"] is not None) == call.failed for wanted, call in pairs),
            "ids": sum(wanted["call_id"] == call.call_id for wanted, call in pairs),
        }

    @property
    def agents(self) -> list[str]:
        """The names of all agents, each once."""
        return list(dict.fromkeys(run.agent for e in self.extractions for run in e.runs if run.agent))

    def texts_right(self) -> tuple[int, int]:
        """How many runs' prompts and final answers were read."""
        runs = [run for e in self.extractions for run in e.runs]
        prompts, answers = {run.prompt for run in runs}, {run.final_answer for run in runs}
        wanted = self.expected["runs"]
        return sum(r["user_prompt"] in prompts for r in wanted), sum(r["final_answer"] in answers for r in wanted)

    @property
    def session(self) -> str:
        """Whether the session that the run was given was read from every trace with calls."""
        if self.expected["session_id"] is None:
            return "-"
        read = {e.session for e in self.extractions if e.calls}
        return "yes" if read == {self.expected["session_id"]} else "no"


def _corpus(config: pytest.Config) -> Path:
    folder: Path | None = config.getoption("--corpus")
    if folder is None:
        if not BESIDE.is_dir():
            pytest.skip("no captures: name their folder with --corpus DIR")
        folder = BESIDE
    if not _expectations(folder):
        pytest.fail(f"{folder}: no FRAMEWORK/NAME.expected.json in it; --corpus names a folder of captures")
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "capture" in metafunc.fixturenames:
        folder = metafunc.config.getoption("--corpus") or BESIDE
        names = [str(p.relative_to(folder)).removesuffix(".expected.json") for p in _expectations(folder)]
        metafunc.parametrize("capture", names or [pytest.param("", id="no captures")])


def _expectations(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.expected.json"))


def test_calls_are_read_as_they_were_made(capture: str, request: pytest.FixtureRequest) -> None:
    folder = _corpus(request.config)
    expected = json.loads((folder / f"{capture}.expected.json").read_text(encoding="utf-8"))
    logs = folder / f"{capture}.logs.binpb"
    files = [folder / f"{capture}.binpb", *([logs] if logs.exists() else [])]
    comparison = _compare(capture, expected, files)
    is_read = _is_read(expected)
    reason = _not_shown(capture)
    request.config.stash[CORPUS_ROWS].append(_row(comparison, is_read, reason))
    if not is_read:
        return
    assert comparison.paired() is not None, (
        f"read {[call.name for call in comparison.calls]}, made {[call['name'] for call in comparison.wanted]}"
    )
    if expected["content_capture"] and reason is None:
        right = comparison.right()
        count = len(comparison.paired() or ())
        assert right | {"ids": count} == dict.fromkeys(right, count)


def _compare(capture: str, expected: dict[str, Any], files: list[Path]) -> Comparison:
    traces = read_traces(read_sources([str(file) for file in files], SourceReport()))
    traces.sort(key=lambda trace: (min(span.start_ns for span in trace.spans), trace.trace_id))
    extractions = [extract(trace) for trace in traces]
    fold_across(extractions)
    return Comparison(capture, expected, extractions)


def _is_read(expected: dict[str, Any]) -> bool:
    dialect: str = expected["dialect"]
    return dialect.startswith(DIALECTS_READ)


def _not_shown(capture: str) -> str | None:
    return NOT_SHOWN.get(capture) or NOT_SHOWN.get(f"{capture.partition('/')[0]}/*")


def _row(comparison: Comparison, is_read: bool, reason: str | None) -> str:
    count = len(comparison.wanted)
    right = comparison.right()
    prompts, answers = comparison.texts_right()
    runs = len(comparison.expected["runs"])
    cells = [f"{number}/{count}" if number >= 0 else "-" for number in right.values()]
    remarks = [
        *([] if is_read else ["not yet"]),
        *([] if comparison.expected["content_capture"] else ["content off"]),
        *([reason] if reason else []),
    ]
    return (
        f"{comparison.capture:46} {'ok' if comparison.paired() is not None else 'NO':6}"
        f"{cells[0]:7}{cells[1]:8}{cells[2]:7}{cells[3]:6}{f'{prompts}/{runs}':7}{f'{answers}/{runs}':7}"
        f"{comparison.session:8}{', '.join(comparison.agents) or '-'}{'; ' + ', '.join(remarks) if remarks else ''}"
    )
