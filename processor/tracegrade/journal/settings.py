"""The journal's settings."""

from typing import Literal, Self

from pydantic import Field, model_validator

from tracegrade.document.file_model import Duration, FileModel
from tracegrade.journal.kafka.settings import KafkaSettings

_MIB = 1024 * 1024

FAIR_FROM_MIB = 16
"""The smallest journal in which small senders keep their judgements beside noisy ones.

In `tests/system/reliability/test_fair_shares.py`, 37 of 38 traces of the small one are judged at 16 MiB, and 28 to
31 at 8 MiB: while the judge closes what it has read, so little fills twice.
"""


class JournalSettings(FileModel):
    """``journal:`` in the configuration file."""

    sync: Literal["always", "interval"] = Field(
        "always",
        description="always: answered after fdatasync. interval: answered after the write, fdatasync every "
        "sync_interval; a power cut may lose what was answered since, a kill loses nothing.",
    )
    sync_interval: Duration = Field(1.0, gt=0, description="The time between two fdatasync calls, with sync: interval.")
    max_size_mib: int = Field(2048, ge=8, description="Largest size on disk. Retention keeps an eighth of it free.")
    max_age: Duration = Field(86400.0, gt=0, description="Older records are deleted when every consumer has read them.")
    segment_size_mib: int = Field(64, ge=1, le=1024, description="Size of one file; at most a 32nd of max_size_mib.")
    kafka: KafkaSettings | None = Field(
        None,
        description="Kafka as the journal, in place of files on this machine's disk; needs the extra tracegrade[kafka] "
        "and a store in PostgreSQL. The other settings of journal are then not given: the topics have their own.",
    )

    @model_validator(mode="after")
    def _one_journal(self) -> Self:
        if self.kafka is not None and (named := sorted(self.model_fields_set - {"kafka"})):
            raise ValueError(
                f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} for a journal on this machine's disk, but "
                "kafka makes Kafka the journal; remove one, and set size and age at the topics"
            )
        return self

    @property
    def max_bytes(self) -> int:
        """The size bound in bytes."""
        return self.max_size_mib * _MIB

    @property
    def segment_bytes(self) -> int:
        """Size at which the next segment begins."""
        # Retention deletes a whole segment: of large ones, before it is needed.
        return min(self.segment_size_mib * _MIB, self.max_bytes // 32)
