"""The questions of `questions.md`: SQL gives the answers that are written there."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from build.fleet import RULES, fleet
from build.site import Site, serving
from tracegrade.codec.kept_spans import trace_of
from tracegrade.store.read import stored_traces


class Question(NamedTuple):
    text: str
    sql: str
    answer: str
    words: str


_WRITTEN = re.compile(
    r"### (\d+\. .*?)\n\n```sql\n(.*?);\n```\n\n```text\n(.*?)\n```\n(?:\nIn the trace: `([^`]*)`\n)?", re.DOTALL
)
QUESTIONS = [Question(*found) for found in _WRITTEN.findall(Path(__file__).with_name("questions.md").read_text())]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with serving(folder, str(RULES), config=fleet(folder, time.time_ns())) as served:
        yield served


def test_there_are_twenty_questions() -> None:
    assert [int(question.text.partition(".")[0]) for question in QUESTIONS] == list(range(1, 21))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text.partition(".")[0])
def test_sql_gives_the_answer(site: Site, question: Question) -> None:
    with closing(sqlite3.connect(site.config.data_path / "tracegrade.db")) as store:
        rows = store.execute(question.sql).fetchall()
    lines = [" | ".join("" if value is None else str(value) for value in row).rstrip() for row in rows]
    assert "\n".join(lines) == question.answer
    if question.words:
        with site.store() as connection:
            (stored,) = (
                item for item in stored_traces(connection, bytes.fromhex(lines[0])) if item.trace.tenant == "default"
            )
        held = [str(value).replace("\\", "") for span in trace_of(stored).spans for value in span.attributes.values()]
        assert any(question.words in value for value in held)
