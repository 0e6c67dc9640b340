"""Clients of Kafka that fail for good, as they do once a broker tells them that another has their place."""

import ctypes
from typing import Any

from confluent_kafka import cimpl

FENCED_INSTANCE_ID = 82
INVALID_PRODUCER_EPOCH = 47


def fail_for_good(client: Any, code: int) -> None:
    """What librdkafka has for tests; a real cause needs a broker that crashes, and a mock never fences."""
    librdkafka = ctypes.CDLL(cimpl.__file__)
    handle = ctypes.c_void_p.from_address(id(client) + object.__basicsize__)
    assert librdkafka.rd_kafka_test_fatal_error(handle, code, b"made by a test") == 0
