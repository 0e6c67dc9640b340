"""Errors of a store that is open: it is locked, its server went away, its file cannot be read."""

import logging

from tracegrade.store.errors import cannot_be_used, cause_of

logger = logging.getLogger(__name__)


def said_of_store(error: Exception) -> str:
    """The cause in the database's words; it is logged, too.

    Raises:
        Exception: `error`, where the store is well and refuses what it was asked: that is a mistake of ours.
    """
    if not cannot_be_used(error):
        raise error
    said = cause_of(error).partition("\n")[0]
    logger.warning("the store cannot be used: %s", said)
    return said
