import tracemalloc
from dataclasses import replace

from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.deliver.results import resource


def test_long_names_of_senders_are_not_kept(judged):
    def encode_so_many(numbers):
        for number in numbers:
            name = f"{number}" + "x" * 50_000
            record = judged({"agent": name, "session": name, "subject": {"kind": "session", "id": name}})
            record = replace(record, trace=replace(record.trace, resource={"a": name, name: 1}))
            assert name.encode() in resource(record)
            assert all(name.encode() in encoded for encoded in (*carriers(record, False), *events(record, False)))

    encode_so_many(range(3))
    tracemalloc.start()
    try:
        encode_so_many(range(3, 103))
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
