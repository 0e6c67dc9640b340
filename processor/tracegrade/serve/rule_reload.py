"""Reads rule files again when they change; if they are wrong, they are refused, and the rules in force stay."""

import asyncio
import logging

from tracegrade.access.quotas import QuotasSettings
from tracegrade.config import RulesSettings
from tracegrade.deliver.consumer import wait
from tracegrade.model.errors import TraceGradeError
from tracegrade.rule.load import RuleSet, rules_stamp
from tracegrade.telemetry.metrics import Telemetry, series

_EXPERIMENTAL = "tracegrade.rules.experimental"
_MOST_READS = 10  # then what is there: files that change without end are some of one moment, some of another

logger = logging.getLogger(__name__)


class RuleReload:
    """Watches the rule files of one process."""

    def __init__(self, settings: RulesSettings, telemetry: Telemetry, quotas: QuotasSettings | None = None) -> None:
        """Read the first rules: ``in_force``.

        Raises:
            TraceGradeError: the rules are wrong, or a tenant has more of its own than its quota allows.
        """
        self._settings = settings
        self._quotas = quotas or QuotasSettings()
        self._telemetry = telemetry
        self._stamp, found = self._stamped_rules()
        if isinstance(found, TraceGradeError):
            raise found
        self.in_force = found
        self._note()

    def _stamp_now(self) -> tuple[object, ...]:
        return rules_stamp(self._settings.paths, allow_code=self._settings.allow_code)

    def _stamped_rules(self) -> tuple[tuple[object, ...], RuleSet | TraceGradeError]:
        """The stamp and the rules of one moment, or what is wrong with them.

        Files that change while they are read, as a ConfigMap's do all at once, are read again: some are old, some new.
        """
        found: RuleSet | TraceGradeError
        for _ in range(_MOST_READS):
            stamp = self._stamp_now()
            try:
                found = self._settings.reading.load(self._settings.paths)
                self._quotas.check_rules(found)
            except TraceGradeError as error:
                found = error
            if self._stamp_now() == stamp:
                break
        return stamp, found

    async def run(self, stop: asyncio.Event) -> None:
        """Look as often as the settings say, in a thread, until `stop` is set."""
        interval_s = self._settings.reload
        while interval_s is not None and not await wait(stop, interval_s):
            await asyncio.to_thread(self.poll)
        await stop.wait()

    def poll(self) -> RuleSet | None:
        """The rules in the files now; None when they are already in force, or wrong, which is logged once."""
        if self._stamp_now() == self._stamp:
            return None
        self._stamp, found = self._stamped_rules()
        if isinstance(found, TraceGradeError):
            self._refuse(found)
            return None
        before = self.in_force
        self.in_force = found
        self._note()
        if found.hash == before.hash:
            return None
        for warning in found.warnings:
            logger.warning("%s", warning)
        self._telemetry.add("tracegrade.rules.reloads", 1, outcome="loaded")
        alike = found.judgement_hash == before.judgement_hash
        what = "the rules' texts have changed, not what they judge" if alike else "the rules have changed"
        logger.info("%s: %d in force (%s, before %s)", what, len(found), found.hash, before.hash)
        return found

    def _refuse(self, error: TraceGradeError) -> None:
        self._telemetry.add("tracegrade.rules.reloads", 1, outcome="refused")
        self._note(refused=str(error).partition("\n")[0])
        in_force = self.in_force.hash
        logger.error("the changed rule files have mistakes; the rules in force (%s) stay:\n%s", in_force, error)

    def _note(self, refused: str | None = None) -> None:
        self._telemetry.conditions.say("rules_refused", refused)
        experimental = {
            series(_EXPERIMENTAL, rule=rule.id, rule_hash=rule.hash[:8]): 1.0
            for rule in self.in_force.rules
            if rule.status == "experimental"
        }
        self._telemetry.replace(
            {
                "tracegrade.rules.loaded": {(): len(self.in_force)},
                "tracegrade.rules.refused": {(): int(refused is not None)},
                _EXPERIMENTAL: experimental,
            }
        )
