"""What people write of an id: all of it, its beginning, or a session's."""

import pytest
from sqlalchemy import Engine

from build.judged_traces import evaluation, judged
from tracegrade.model.errors import NotFound
from tracegrade.model.session import session_trace_id
from tracegrade.queries.lists import with_whole_ids
from tracegrade.queries.parameters import ResultsQuery
from tracegrade.store.named import trace_id_named
from tracegrade.store.open import reading
from tracegrade.store.write import StoreWriter


def test_a_trace_or_session_is_found_by_the_beginning_of_its_id(engine: Engine) -> None:
    ids = ["bc20ad02" + "1" * 24, "bc20ad03" + "2" * 24, "c0" * 16, "d1" * 16]
    own = session_trace_id("default", "conv-1211").hex()
    of_session = evaluation(4, "pass", subject={"kind": "session", "id": "conv-1211"}, session="conv-1211")
    StoreWriter(engine).write(
        [
            judged(1, trace_id=ids[0], session="conv-1", evaluations=[evaluation(1)]),
            judged(2, trace_id=ids[1], session="conv-2", evaluations=[evaluation(2)]),
            judged(3, trace_id=ids[2], session="conv-2", evaluations=[evaluation(3)]),
            judged(4, trace_id=ids[3], session="conv-1211", evaluations=[evaluation(4)]),
            judged(5, session="conv-1211", members={bytes.fromhex(ids[3]): 2}, evaluations=[of_session]),
        ]
    )
    with reading(engine) as connection:
        for written, expected in {
            "bc20ad02": ids[0],
            "BC20-AD03": ids[1],
            "c0c0": ids[2],
            "conv-1": ids[0],  # all of its id, though another begins so
            "conv-12": own,  # judged as a session
            "f" * 32: "f" * 32,  # whole: it need not be stored
            "d1d1" + "d1" * 13: ids[3],
        }.items():
            assert trace_id_named(connection, written).hex() == expected, written
        for written, said in {
            "bc20": f"several: {ids[1]} (trace of shop), {ids[0]} (trace of shop); write more",
            "conv-2": f"several: {ids[2]} (trace of shop), {ids[1]} (trace of shop); write more",
            "conv-": "begins several sessions: conv-1, conv-1211, conv-2; write more",
            "bc2": "no stored trace or session has this id",
            "": "no stored trace or session has this id",
            "nothing": "no stored trace or session has this id",
        }.items():
            with pytest.raises(NotFound) as refused:
                trace_id_named(connection, written)
            assert said in str(refused.value), written
        with pytest.raises(NotFound, match="no stored trace has this id"):
            trace_id_named(connection, "conv-1211", sessions=False)
        found = with_whole_ids(connection, ResultsQuery(session="conv-12", trace_id="d1d1", rule="x"))
        assert found == ResultsQuery(session="conv-1211", trace_id=ids[3], rule="x")
        with pytest.raises(NotFound, match="no stored session has this id"):
            with_whole_ids(connection, ResultsQuery(session="other"))
