"""Prints ``POSITION END NUMBER`` of every record from the committed position on, then commits.

Arguments: journal folder, position file. At end of input it reads up to the durable end and ends.
"""

import select
import sys
from pathlib import Path

from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader


def main() -> None:
    reader, committed = JournalReader(Path(sys.argv[1])), Position(Path(sys.argv[2]))
    position = committed.load() or 0
    last_ns = 0
    idle_s = 0.0
    while True:
        ending = bool(select.select([sys.stdin], [], [], idle_s)[0])
        idle_s = 0.0
        records = reader.read(position, 10_000)
        durable = reader.durable()
        for record in records:
            assert record.end <= durable.end, (record.end, durable)
            assert record.received_ns >= last_ns
            last_ns = record.received_ns
            print(record.position, record.end, int(record.payload.split(b" ")[0]), flush=True)
        if records:
            position = records[-1].end
            committed.commit(position)
        elif ending:
            assert reader.lost_bytes == 0, reader.lost_bytes
            assert position == durable.end, (position, durable)
            return
        else:
            idle_s = 0.001


main()
