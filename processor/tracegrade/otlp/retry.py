"""When to try again: the collector's exponential backoff, as a pure function of the time passed in.

Source: the collector's ``exporterhelper`` (``retry_on_failure``) and the backoff it uses: each interval is spread by
``randomization_factor``, then grows by ``multiplier`` up to ``max_interval``; the wait is
never shorter than a delay that the server asked for; a wait that would end after ``max_elapsed_time`` is not begun.
"""

from collections.abc import Callable

from pydantic import Field, model_validator

from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel


class RetrySettings(FileModel):
    """``retry_on_failure`` in the collector's words and with its defaults."""

    enabled: bool = Field(True, description="Try again after a failure that may pass; false: one attempt only.")
    initial_interval: Duration = Field(5.0, ge=0, description="Wait before the first repetition.")
    randomization_factor: float = Field(0.5, ge=0, le=1, description="Random part of each wait, as a share of it.")
    multiplier: float = Field(1.5, ge=1, description="Growth of the wait from one repetition to the next.")
    max_interval: Duration = Field(30.0, ge=0, description="The wait grows no further than this.")
    # The collector gives up after 300 s. Our queue is the journal: its size bounds what waits, and the exporter's
    # `when_full` says whether requests may be lost then.
    max_elapsed_time: Duration = Field(0.0, ge=0, description="Give up after this long; 0s: never.")

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "RetrySettings":
        if self.max_interval < self.initial_interval:
            raise ValueError(
                f"max_interval ({duration_text(self.max_interval)}) is below initial_interval "
                f"({duration_text(self.initial_interval)}); expected at least that"
            )
        if 0 < self.max_elapsed_time < self.max_interval:
            raise ValueError(
                f"max_elapsed_time ({duration_text(self.max_elapsed_time)}) is below max_interval "
                f"({duration_text(self.max_interval)}); expected at least that, or 0s to never give up"
            )
        return self


class Backoff:
    """The waits of one request, from its first attempt to the last."""

    def __init__(self, settings: RetrySettings, started_s: float, random: Callable[[], float]) -> None:
        """Begin.

        Args:
            settings: the bounds.
            started_s: when the first attempt began, in seconds of any clock that never goes back.
            random: gives numbers in [0, 1).
        """
        self._settings = settings
        self._started_s = started_s
        self._random = random
        self._interval_s = settings.initial_interval

    def next_delay(self, now_s: float, retry_after_s: float | None = None) -> float | None:
        """Seconds to wait before the next attempt.

        Args:
            now_s: the time, by the clock of `started_s`.
            retry_after_s: the delay that the server asked for; the wait is never shorter.

        Returns:
            The delay, or None to give up.
        """
        settings = self._settings
        if not settings.enabled:
            return None
        spread = settings.randomization_factor * self._interval_s
        delay = self._interval_s - spread + 2 * spread * self._random()
        self._interval_s = min(self._interval_s * settings.multiplier, settings.max_interval)
        delay = max(delay, retry_after_s or 0.0)
        if settings.max_elapsed_time and now_s + delay - self._started_s > settings.max_elapsed_time:
            return None
        return delay
