"""Kafka as the journal: whether its topics are as they must be, and how far each group has read."""

from collections.abc import Iterator

from tracegrade.config import Config
from tracegrade.display import count
from tracegrade.doctor.finding import Finding, Level
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.groups import forwarding_group, progress_of
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.kafka.topics import Topics, examine_topics, topic_names

_WITHIN_S = 5.0
_BEHIND_MESSAGES = 10_000


def kafka(config: Config, settings: KafkaSettings) -> Iterator[Finding]:
    """The topics' findings, and each group's."""
    try:
        topics = examine_topics(settings, wait_s=_WITHIN_S)
    except KafkaUnfit as error:
        yield Finding("kafka", "error", "", str(error), "docs/guides/kafka.md says how the topics are made")
        return
    yield from _of_topics(topics)
    judged = [settings.traces_topic, settings.logs_topic]
    yield from _of_group(settings, settings.group, judged, "start more judges: 'tracegrade serve --role judge'")
    for name in config.exporters:
        advice = "check its endpoint; 'tracegrade_exporter_retries_total' on /metrics says why it waits"
        yield from _of_group(settings, forwarding_group(name), topic_names(settings), advice)


def _of_topics(topics: Topics) -> Iterator[Finding]:
    for topic, partitions in topics.partitions.items():
        warnings = topics.warnings.get(topic, ())
        for warning in warnings:
            yield Finding("kafka", "warning", topic, warning, "docs/guides/kafka.md says how the topics are made")
        if not warnings:
            largest = topics.max_message_bytes[topic]
            text = f"{count(partitions, 'partition')}; a span of more than {largest} bytes is refused"
            yield Finding("kafka", "ok", topic, text)


def _of_group(settings: KafkaSettings, group: str, topics: list[str], advice: str) -> Iterator[Finding]:
    try:
        progress = progress_of(settings, group, topics, _WITHIN_S)
    except KafkaUnfit as error:
        yield Finding("kafka", "warning", group, str(error), "allow this instance to describe the group")
        return
    evidence = {"waiting": progress.waiting, "lost": progress.lost}
    if not progress.has_begun:
        yield Finding("kafka", "note", group, "it has read nothing yet", "start 'tracegrade serve'", evidence)
        return
    if progress.lost:
        text = f"{count(progress.lost, 'message')} were deleted by retention before it read them"
        yield Finding("kafka", "error", group, text, "set retention.ms of the topics higher; " + advice, evidence)
    level: Level = "warning" if progress.waiting > _BEHIND_MESSAGES else "ok"
    text = f"{count(progress.waiting, 'message')} are not committed yet"
    yield Finding("kafka", level, group, text, advice if level == "warning" else "", evidence)
