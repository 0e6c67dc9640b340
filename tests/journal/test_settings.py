import pytest
from pydantic import ValidationError

from build import each
from tracegrade.journal.settings import JournalSettings


def test_defaults() -> None:
    settings = JournalSettings()
    assert (settings.sync, settings.max_bytes, settings.segment_bytes, settings.max_age) == (
        "always",
        2 * 1024**3,
        64 * 1024**2,
        86400,
    )


def test_a_small_journal_has_small_segments() -> None:
    """Retention deletes the oldest one whole, before the journal is full."""
    assert JournalSettings(max_size_mib=64).segment_bytes == 2 * 1024**2


@each(
    "wrong",
    [{"sync": "never"}, {"max_size_mib": 7}, {"max_age": "0s"}, {"segment_size_mib": 0}, {"sync_interval": "soon"}],
)
def test_wrong_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JournalSettings.model_validate(wrong)
