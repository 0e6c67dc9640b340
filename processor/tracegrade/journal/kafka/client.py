"""Clients of Kafka: the library, and the settings that all of them share."""

import logging
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.settings import ClientValue, KafkaSettings

logger = logging.getLogger(__name__)
_SILENT = logging.Logger("kafka-silent", logging.CRITICAL + 1)


def library() -> ModuleType:
    """The module ``confluent_kafka``, imported at the first call.

    Raises:
        KafkaUnfit: the extra is not installed.
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise KafkaUnfit(
            f"journal.kafka needs an extra ({error}): pip install 'tracegrade[kafka]', or remove journal.kafka"
        ) from None
    return confluent_kafka


def client_config(
    settings: KafkaSettings,
    role: str,
    usual: Mapping[str, ClientValue] = MappingProxyType({}),
    own: Mapping[str, ClientValue] = MappingProxyType({}),
) -> dict[str, Any]:
    """The configuration of one client.

    Args:
        settings: which brokers; ``client`` is passed through.
        role: what it does, for the brokers' logs, metrics and quotas: see `KafkaSettings.client_id`.
        usual: what holds unless ``client`` says otherwise.
        own: what holds whatever ``client`` says.
    """
    brokers = {"bootstrap.servers": ",".join(settings.brokers)}
    return {
        "client.id": settings.client_id(role),
        **usual,
        **settings.client,
        **own,
        **brokers,
        "logger": client_logger(),
    }


def asking_config(settings: KafkaSettings, **own: ClientValue) -> dict[str, Any]:
    """Settings of a client that asks once and ends: it logs nothing, since its errors say what is wrong."""
    return client_config(settings, "ask", own={key.replace("_", "."): value for key, value in own.items()}) | {
        "logger": _SILENT
    }


def check_client(settings: KafkaSettings) -> None:
    """Check ``client`` as the library reads it, certificates too; connects to nobody.

    Raises:
        KafkaUnfit: the extra is missing, a key is unknown, or a value is wrong.
    """
    kafka = library()
    try:
        kafka.Producer({**settings.client, "logger": _SILENT})
    except (kafka.KafkaException, TypeError, ValueError) as error:
        raise KafkaUnfit(f"journal.kafka.client: {error_text(error)}") from None


def error_text(error: Any) -> str:
    """The library's text for an error, a ``KafkaError`` or an exception with one, in one line."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return " ".join(text.split())


def is_final(error: Any) -> bool:
    """Whether the client that gave this ``KafkaError`` can do nothing any more, and another has to take its place.

    A consumer says so by a message whose error has a code of its own, and whose ``fatal()`` is False; a producer's
    calls raise an exception, and its ``error_cb`` is not called.
    """
    return bool(error.fatal()) or error.code() == library().KafkaError._FATAL


def client_logger() -> logging.Logger:
    """Where clients log: as this package, without remarks on settings that are for another kind of client."""
    if not logger.filters:
        logger.addFilter(lambda record: "CONFWARN" not in record.getMessage())
    return logger
