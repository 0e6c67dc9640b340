"""A member of a forwarder's group, by itself."""

import pytest

from build.mock_cluster import MockCluster
from journal.kafka.librdkafka import FENCED_INSTANCE_ID, fail_for_good
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.originals import Originals
from tracegrade.model.signal import Signal
from waiting import eventually


@pytest.mark.parametrize("waits", [False, True], ids=["reading", "waiting"])
def test_a_member_that_failed_for_good_says_so(cluster: MockCluster, waits: bool) -> None:
    member = Originals(cluster.settings(), "forward", {"otlp_spans": Signal.TRACES}, lambda: None)
    assert member.read(1, 0.1) == []
    fail_for_good(member._consumer, FENCED_INSTANCE_ID)
    if waits:
        eventually(lambda: member.stay() or member._failed is not None, "what was polled while it waited")
    with pytest.raises(KafkaUnfit, match="fenced by other consumer"):
        eventually(lambda: member.read(1, 0.1), "the error")
    member.close()
