"""Keys and their partitions."""

from confluent_kafka import Producer

from build import each
from tracegrade.journal.kafka.partition_hash import partition_of


def test_keys_belong_where_librdkafka_puts_them() -> None:
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "partitioner": "fnv1a"})
    found: dict[bytes, int] = {}
    for number in range(200):
        producer.produce(
            "topic",
            key=f"{number * 7919:032x}".encode(),
            on_delivery=lambda error, message: found.update({message.key(): message.partition()}),
        )
    producer.flush(10)
    assert len(found) == 200
    assert {key: partition_of(key, 4) for key in found} == found


@each(
    ("key", "digest"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],  # test vectors of the FNV draft
)
def test_the_remainder_is_of_the_signed_hash(key: bytes, digest: int) -> None:
    signed = digest - (1 << 32) if digest >> 31 else digest
    assert partition_of(key, 1000) == abs(signed) % 1000
