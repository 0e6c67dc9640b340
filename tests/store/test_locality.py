"""What a batch costs does not grow with what is stored: it changes few pages, beside the traces' own."""

from pathlib import Path

from sqlalchemy import text

from build import store_with
from tracegrade.store.index import Blocks
from tracegrade.store.open import checkpoint, open_store
from tracegrade.store.schema import CHUNK_TRACES, MINUTE_NS
from tracegrade.store.tallies import CountChanges

SERIES, MINUTES, CHUNKS = 200, 300, 40
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299) "
PAGE_BYTES = 4096


def test_sums_and_blocks_of_many_series_change_few_pages(tmp_path: Path) -> None:
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        connection.execute(
            text(
                f"{NUMBERS}INSERT INTO counts (minutes, minute, series, complete, passed, failed, not_evaluable, "
                "errors, score_sum, score_squares) SELECT 1, m.i, s.i + 1, 1, 1, 0, 0, 0, 1.0, 1.0 FROM n AS m, n AS s "
                f"WHERE m.i < {MINUTES} AND s.i < {SERIES}"
            )
        )
        connection.execute(
            text(
                f"{NUMBERS}INSERT INTO blocks (chunk, series, outcome, held) SELECT c.i, s.i + 1, 0, 1 "
                f"FROM n AS c, n AS s WHERE c.i < {CHUNKS} AND s.i < {SERIES}"
            )
        )
    checkpoint(engine)
    log = tmp_path / "tracegrade.db-wal"
    assert log.stat().st_size == 0
    rows = [("id", series + 1, None, 0, "subject", 0, 1.0, 0) for series in range(SERIES)]
    sums, blocks = CountChanges(), Blocks()
    sums.add(None, MINUTES * MINUTE_NS, True, rows, [])
    blocks.add(CHUNKS * CHUNK_TRACES, rows)
    with engine.begin() as connection:
        sums.write(connection)
        blocks.write(connection)
    assert log.stat().st_size // PAGE_BYTES < SERIES // 4
    engine.dispose()
