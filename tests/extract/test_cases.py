"""Cases: spans in a short form and the records that must be read from them, one file each, in a folder a dialect."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from build import each, read_case, trace
from tracegrade.extract.extract import extract
from tracegrade.extract.registry import DIALECTS
from tracegrade.model.extraction import Extraction

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*/*.yaml"))

# Shown only where they differ from this, so that a case shows what it is about.
_CALL_DEFAULTS: dict[str, Any] = {
    "arguments_status": "ok",
    "output_status": "ok",
    "error": None,
    "call_id": None,
    "depth": 0,
    "attempt": 1,
    "read_from": "span",
    "message_path": None,
    "also_seen_in": [],
}


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_spans_of_a_case_give_its_records(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    case = read_case(text)
    found = records(extract(trace(case["spans"], log_records=case.get("log_records", ()))))
    if request.config.getoption("--update-golden"):
        head = text.partition("\nexpected:")[0]
        written = yaml.safe_dump({"expected": found}, sort_keys=False, allow_unicode=True, width=110)
        path.write_text(f"{head.rstrip()}\n\n{written}", encoding="utf-8")
        return
    assert found == case["expected"], case["description"]


@each("dialect", DIALECTS)
def test_every_dialect_has_a_folder_of_cases(dialect: str) -> None:
    assert list((FOLDER / dialect).glob("*.yaml"))


def test_every_module_of_a_dialect_is_registered() -> None:
    import tracegrade.extract.dialects as package

    modules = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    assert modules == set(DIALECTS)


def records(extraction: Extraction) -> dict[str, Any]:
    """What an extraction found, as plain values: runs with their calls by number, and the calls in order."""
    numbers = {id(call): number for number, call in enumerate(extraction.calls)}
    return {
        "runs": [
            {
                key: value
                for key, value in {
                    "span": int(run.span_id, 16),
                    "agent": run.agent,
                    "parent": int(run.parent_span_id, 16) if run.parent_span_id else None,
                    "prompt": run.prompt,
                    "final_answer": run.final_answer,
                    "session": run.session,
                    "user": run.user,
                    "model": run.model,
                    "calls": [numbers[id(call)] for call in run.calls],
                }.items()
                if value is not None
            }
            for run in extraction.runs
        ],
        "calls": [_call(call) for call in extraction.calls],
    }


def _call(call: Any) -> dict[str, Any]:
    error = None if call.error is None else {"type": call.error.type, "message": call.error.message}
    shown = {
        "arguments_status": call.arguments_status,
        "output_status": call.output_status,
        "error": error,
        "call_id": call.call_id,
        "depth": call.depth,
        "attempt": call.attempt,
        "read_from": call.read_from,
        "message_path": call.message_path,
        "also_seen_in": [int(span_id, 16) for span_id in call.also_seen_in],
    }
    return {
        "span": int(call.span_id, 16),
        "name": call.name,
        "arguments": call.arguments,
        "output": call.output,
        "agent": call.agent,
        "batch": call.batch,
        **{key: value for key, value in shown.items() if value != _CALL_DEFAULTS[key]},
    }
