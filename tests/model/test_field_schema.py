"""A field is written in its record and where it is filled, and is then in every form of the record."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Annotated

from tracegrade.model.field_schema import FLATTENED, FieldSpec, json_of, own_fields, record_fields, rows_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Inner:
    kind: Annotated[str, FieldSpec("the kind", "subject.kind")]
    id: Annotated[bytes, FieldSpec("the id", "subject.id")]
    hidden: int = 0


@dataclass
class Outer:
    inner: Annotated[Inner, FLATTENED]
    time_ns: Annotated[int, FieldSpec("when", "time", is_time=True), FieldSpec("again", "when", column=None)]
    others: Annotated[list[Inner], FieldSpec("the others")] = field(default_factory=list)
    members: Annotated[dict[bytes, int] | None, FieldSpec("its members", optional=True)] = None

    JSON_ORDER = ("time", "subject")


def test_json_is_what_is_shown_of_a_record_and_of_those_within() -> None:
    found = json_of(Outer(Inner("agent", "i"), 5))
    assert list(found.items()) == [("time", 5), ("subject", {"kind": "agent", "id": "i"}), ("when", 5), ("others", [])]
    inner = Inner("tool-call", "j")
    found = json_of(Outer(inner, 5, [inner], {b"\x01": 2}))
    assert found["others"] == [{"subject": {"kind": "tool-call", "id": "j"}}]
    assert found["members"] == {"01": 2}


def test_columns_are_of_the_record_alone_and_named_without_objects() -> None:
    assert [item.column for item in own_fields(Outer)] == ["time", None, "others", "members"]
    assert [item.column for item in own_fields(Inner)] == ["subject_kind", "subject_id"]
    assert [item.path for item in record_fields(Outer)][:3] == ["time_ns", "inner.kind", "inner.id"]


def test_a_row_holds_the_attributes_that_are_named() -> None:
    inner = Inner("agent", "i", 3)
    assert rows_of(["inner", "time_ns"])([Outer(inner, 5), Outer(inner, 6)]) == [(inner, 5), (inner, 6)]
    assert rows_of(["hidden", "kind"], kind=str.upper)([inner]) == [(3, "AGENT")]


_ADDED = {
    "model/evaluation.py": (
        "    pairs: Pairs | None = None\n",
        '    weight: Annotated[float, FieldSpec("how much it counts")] = 1.0\n'
        '    note: Annotated[str, FieldSpec("what was seen", is_value=True)] = "4111 1111"\n',
    ),
    "judge.py": (
        "            None if score.pairing is None else score.pairing.pairs,\n",
        "            spec.threshold / 4,\n",
    ),
}


def test_a_field_added_to_an_evaluation_is_in_json_the_api_parquet_and_the_documentation(tmp_path: Path) -> None:
    package = tmp_path / "processor" / "tracegrade"
    shutil.copytree(ROOT / "processor" / "tracegrade", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, added) in _ADDED.items():
        text = (package / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        (package / name).write_text(text.replace(before, before + added), encoding="utf-8")
    program = """
        import json, sys
        from pathlib import Path

        from click.testing import CliRunner

        from build.replayed import request, write_rule, write_source
        from build.site import serving
        from generator import api, tables
        from tracegrade.cli import main
        from tracegrade.codec.without_values import evaluation_without_values
        from tracegrade.deliver.parquet.columns import COLUMNS
        from tracegrade.deliver.parquet.rows import result_rows
        from tracegrade.store.open import reading_store
        from tracegrade.store.read import stored_traces

        folder = Path(sys.argv[1])
        data = folder / "data"
        source, rule = write_source(folder, request(1, "create_order")), write_rule(folder)
        stored = ["--experiment", "shop", "--run", "first", "--data-dir", str(data), "--format", "json"]
        replayed = CliRunner().invoke(main, ["replay", source, "--rules", rule, *stored], catch_exceptions=False)
        of_command = json.loads(replayed.stdout.splitlines()[0])
        with serving(data) as site:
            (of_api,) = json.loads(site.get("/api/v1/results?run=first").text)["items"]
        with reading_store(f"sqlite:///{data / 'tracegrade.db'}") as connection:
            (result,) = stored_traces(connection, bytes.fromhex(of_command["trace_id"]), run="first")
        (row,) = result_rows(result, include_values=False)
        masked = evaluation_without_values(result.evaluations[0])
        of_parquet = dict(zip([column.name for column in COLUMNS["results"]], row, strict=True))
        model = api.document("api")["components"]["schemas"]["EvaluationDocument"]
        print(json.dumps({
            "weights": [found["weight"] for found in (of_command, of_api, of_parquet)],
            "notes": [of_api["note"], of_parquet["note"], masked.note],
            "model": model["properties"]["weight"]["description"], "required": "weight" in model["required"],
            "documented": [page.count("how much it counts") + page.count("How much it counts")
                           for page in (api.documents("api"), tables.parquet_columns("results"))],
        }))
    """
    paths = (package.parent, ROOT / "tests", ROOT / "tests" / "system", ROOT / "docs")
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "weights": [0.25, 0.25, 0.25],
        "notes": ["4111 1111", None, ""],
        "model": "How much it counts",
        "required": True,
        "documented": [1, 1],
    }
