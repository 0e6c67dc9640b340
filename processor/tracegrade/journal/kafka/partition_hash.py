"""The partition of a key, as the Collector's Kafka exporter and librdkafka's ``fnv1a`` choose it."""

_OFFSET, _PRIME, _WORD = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_SIGN = 0x80000000


def partition_of(key: bytes, partitions: int) -> int:
    """The number of the partition in which a message with this key belongs, of so many.

    32-bit FNV-1a, taken as a signed number whose remainder, negated if negative, is the partition.

    Source: Sarama's hash partitioner, which other clients imitate.
    """
    digest = _OFFSET
    for byte in key:
        digest = ((digest ^ byte) * _PRIME) & _WORD
    if digest & _SIGN:
        digest = (_WORD + 1 - digest) & _WORD  # its absolute value: the remainder keeps the sign in Go
    return digest % partitions
