"""The positions of a consumer group, for a process that is no member."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.client import asking_config, error_text, library
from tracegrade.journal.kafka.settings import KafkaSettings


@dataclass(slots=True)
class Progress:
    """Of all partitions: the messages after the group's positions, and those that were deleted before it read them."""

    has_begun: bool = False
    waiting: int = 0
    lost: int = 0


def forwarding_group(exporter: str) -> str:
    """The consumer group of an exporter, such as ``otlp`` or ``otlp/archive``; all receivers that have it are in it."""
    return f"tracegrade-forward-{exporter.replace('/', '-')}"


def progress_of(settings: KafkaSettings, group: str, topics: Sequence[str], within_s: float) -> Progress:
    """Ask the brokers.

    Raises:
        KafkaUnfit: no answer, or we may not ask.
    """
    kafka = library()
    consumer = kafka.Consumer(asking_config(settings, group_id=group, enable_auto_commit=False))
    found = Progress()
    try:
        known = consumer.list_topics(timeout=within_s).topics
        places = [kafka.TopicPartition(name, number) for name in topics for number in known[name].partitions]
        for place in consumer.committed(places, timeout=within_s):
            low, end = consumer.get_watermark_offsets(place, timeout=within_s)
            if place.offset >= 0:
                found.has_begun = True
                found.lost += max(0, low - place.offset)
                found.waiting += end - max(low, place.offset)
            else:
                found.waiting += end - low
    except (kafka.KafkaException, KeyError) as error:
        raise KafkaUnfit(f"how far group {group!r} has read is not known: {error_text(error)}") from None
    finally:
        consumer.close()
    return found
