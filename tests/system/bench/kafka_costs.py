"""CPU of producing to and consuming from a real Kafka, of the client and of the broker.

    python tests/system/bench/kafka_costs.py [--requests 400] [--rounds 3]

Needs Java and Maven, as `tests/system/kafka`. The receivers' own producer takes requests of 26 traces of 19
spans each, and is waited for; then the judges' own consumer reads all of it. Client: CPU of this process, with
splitting aside, which is measured alone. Broker: CPU of the whole Java process, less what it takes when it is idle; it
has no replicas, and its JVM is warm after the first round, which does not count.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template
from bench.serving import cpu_s
from kafka.broker import Broker

from tracegrade.journal.kafka.consume import EndReached, GroupConsumer, Message
from tracegrade.journal.kafka.produce import KafkaJournal
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.otlp.by_trace import by_trace
from tracegrade.otlp.encode import MAX_REQUEST_BYTES
from tracegrade.telemetry.metrics import Telemetry

TRACES = 26
PARTITIONS = 8
UNDER_WAY = 8  # requests that are not confirmed, as of so many senders
_IDLE_S = 3.0


def main() -> None:
    """Measure some rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=400, help=f"of {TRACES} traces each")
    parser.add_argument("--rounds", type=int, default=3, help="after one that does not count")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder, Broker(Path(folder) / "kafka") as broker:
        rounds = [measure(broker, number, options.requests) for number in range(options.rounds + 1)][1:]
    for name in rounds[0]:
        print(f"{name:56} {median(found[name] for found in rounds):>10.2f}")


def measure(broker: Broker, number: int, count: int) -> dict[str, float]:
    """µs of CPU of each piece of work, a record, by its name."""
    names = {"traces_topic": f"spans-{number}", "logs_topic": f"logs-{number}"}
    for name in names.values():
        broker.create_topic(name, PARTITIONS)
    settings = KafkaSettings.model_validate({"brokers": [broker.address], "group": f"bench-{number}", **names})
    stamper = Stamper([template(TRACES)], marks(TRACES), 1)
    requests = [stamper.next() for _ in range(count)]
    idle = _of_both(broker, lambda: time.sleep(_IDLE_S))[1] / _IDLE_S  # of a second
    split_s, _, _ = _of_both(broker, lambda: _split(requests))
    journal = KafkaJournal.open(settings, Telemetry("bench"))
    produce_s, stored_s, took_s = _of_both(broker, lambda: _produce(journal, requests))
    journal.close()
    records = count * TRACES
    consume_s, given_s, read_s = _of_both(broker, lambda: _consume(settings, records))
    return {
        "splitting: µs of CPU a record": split_s / records * 1e6,
        "producing: µs of CPU a record": (produce_s - split_s) / records * 1e6,
        "consuming: µs of CPU a record": consume_s / records * 1e6,
        "broker, taking in: µs of CPU a record": (stored_s - idle * took_s) / records * 1e6,
        "broker, giving out: µs of CPU a record": (given_s - idle * read_s) / records * 1e6,
        "spans a record": SPANS_PER_TRACE,
        "bytes a record": sum(map(len, requests)) / records,
    }


def _of_both(broker: Broker, work: Callable[[], object]) -> tuple[float, float, float]:
    """CPU of this process and of the broker, and the time on the wall, in s."""
    begun = time.process_time(), cpu_s(broker.pid), time.monotonic()
    work()
    ended = time.process_time(), cpu_s(broker.pid), time.monotonic()
    own_s, brokers_s, wall_s = (after - before for before, after in zip(begun, ended, strict=True))
    return own_s, brokers_s, wall_s


def _split(requests: list[bytes]) -> None:
    for request in requests:
        by_trace(Signal.TRACES, request, MAX_REQUEST_BYTES)  # kept by nobody, as where messages are sent at once


def _produce(journal: KafkaJournal, requests: list[bytes]) -> None:
    waiting = []
    for request in requests:
        entry = Entry(Signal.TRACES, Encoding.PROTOBUF, "default", TRACES * SPANS_PER_TRACE, request)
        waiting.append(journal.append(entry))
        if len(waiting) == UNDER_WAY:
            waiting.pop(0).result(30)
    for future in waiting:
        future.result(30)


def _consume(settings: KafkaSettings, count: int) -> None:
    consumer = GroupConsumer(settings, 0, lambda found: None, lambda numbers, can_commit: None)
    seen = 0
    while seen < count:
        found = consumer.poll(1.0)
        seen += isinstance(found, Message) and not isinstance(found, EndReached)
    consumer.close()


if __name__ == "__main__":
    main()
