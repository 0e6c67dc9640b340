"""Appends numbered records, keeps a few in flight, prints ``NUMBER END`` for each one answered. Ends at end of input.

Arguments: journal folder, the reader's position file, first number. Retention runs beside, behind the reader.
"""

import random
import select
import sys
from collections import deque
from concurrent.futures import Future
from pathlib import Path

from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.journal.retention import Consumer
from tracegrade.journal.settings import JournalSettings


class Settings(JournalSettings):
    @property
    def max_bytes(self) -> int:
        return 300_000

    @property
    def segment_bytes(self) -> int:
        return 20_000


def main() -> None:
    folder, position, number = Path(sys.argv[1]), Position(Path(sys.argv[2])), int(sys.argv[3])
    journal = LocalJournal.open(folder, Settings(), consumed=position.load() or 0)
    sizes = random.Random(number)
    in_flight: deque[tuple[int, Future[int]]] = deque()
    full_s = 0.0
    while not select.select([sys.stdin], [], [], full_s)[0]:
        full_s = 0.0
        trim_due = number % 20 == 0
        payload = b"%d " % number + bytes(sizes.choice((0, 10, 500, 3000)))
        try:
            in_flight.append((number, journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, payload))))
            number += 1
        except JournalRefused:
            full_s = 0.005  # for the reader to read on
            trim_due = True
        if trim_due:
            lost = journal.trim({"reader": Consumer(position.load() or 0, "refuse")})
            assert not lost, lost
        while in_flight and (len(in_flight) > 8 or in_flight[0][1].done()):
            answered, future = in_flight.popleft()
            print(answered, future.result(), flush=True)
    journal.close()
    for answered, future in in_flight:
        print(answered, future.result(), flush=True)


main()
