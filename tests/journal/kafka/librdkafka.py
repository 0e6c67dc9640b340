"""What librdkafka has for tests, and its Python module does not show."""

import ctypes
from typing import Any

from confluent_kafka import cimpl

_LIBRDKAFKA = ctypes.CDLL(cimpl.__file__)
FENCED_INSTANCE_ID = 82
INVALID_PRODUCER_EPOCH = 47


def fail_for_good(client: Any, code: int) -> None:
    """As clients do once a broker tells them that another has their place.

    A real cause needs a broker that crashes, and a mock never fences.
    """
    assert _LIBRDKAFKA.rd_kafka_test_fatal_error(_handle(client), code, b"made by a test") == 0


def begin_groups_at_once(client: Any) -> None:
    """Let groups of the mock cluster that `client` made begin with their first member, not 3 s later."""
    _LIBRDKAFKA.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    cluster = ctypes.c_void_p(_LIBRDKAFKA.rd_kafka_handle_mock_cluster(_handle(client)))
    _LIBRDKAFKA.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, ctypes.c_int32(10))


def _handle(client: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__)
