"""The fixture ``tracegrade`` of a test."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest
from opentelemetry import context, trace

from tracegrade.assemble.settings import TracesSettings
from tracegrade.document.document import Document
from tracegrade.document.validate import validate
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.pipeline.replay import NOT_STORED, replay_sources
from tracegrade.plugins.installed import load_plugins
from tracegrade.receive.environment import exporting_to
from tracegrade.rule.builtin import BUILTIN
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.sampling import Sample
from tracegrade.testing.collected import Collected
from tracegrade.testing.judged import JudgedTest
from tracegrade.testing.sdk import collecting, join

if TYPE_CHECKING:
    from tracegrade.receive.listener import Listener

INLINE = "inline"
"""The id of a rule that is given in place of its id."""

_QUIET_S = 1.0  # between requests of another process, whose exporter sends more often than that
_NOTHING_CAME = """\
no span was collected. It may be that
  - nothing in this test calls the agent, or its instrumentation is not installed or not switched on,
  - OTEL_SDK_DISABLED or OTEL_TRACES_SAMPLER keeps spans from being recorded,
  - the agent has a tracer provider of its own from before the test: tracegrade.collect_from(provider),
  - the agent runs in another process: tracegrade.listen() gives the address that its exporter has to send to."""

Read = TypeVar("Read")
Spec = str | Mapping[str, Any]
Paths = str | Path | Sequence[str | Path]


class AgentTest:
    """Collects the spans of one test, and judges them.

    Spans that begin in this process after the test asked for the fixture are collected, in all threads and tasks; so
    is what other processes send to the address that `listen` gives.
    """

    def __init__(
        self, root: Path, rules: Sequence[str], fail: Callable[[str], NoReturn], *, allow_code: bool = False
    ) -> None:
        """Collect nothing yet.

        `root` is where paths of rules begin, `rules` those that hold where none are named; they name files of code only
        with `allow_code`.
        """
        self._root = root
        self._rules = rules
        self._fail = fail
        self._allow_code = allow_code
        self._collected = Collected()
        self._listener: Listener | None = None
        self._open = ExitStack()

    def __enter__(self) -> "AgentTest":
        self._open.enter_context(collecting(self._collected))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def collect_from(self, provider: object) -> None:
        """Collect the spans, or log records, of this provider: one that the agent made before the test, for itself.

        Raises:
            TypeError: it takes no processor.
        """
        if not join(provider):
            raise TypeError(f"expected a TracerProvider or LoggerProvider of the OpenTelemetry SDK, found {provider!r}")

    def listen(self, *, set_environment: bool = False) -> str:
        """Receive OTLP on a free port of loopback until the test ends; for agents in other processes and languages.

        Args:
            set_environment: set ``OTEL_EXPORTER_OTLP_ENDPOINT`` and what goes with it in `os.environ` for the time of
                the test, so that processes that it starts send here.

        Returns:
            What ``OTEL_EXPORTER_OTLP_ENDPOINT`` takes; gRPC and HTTP share this one port.
        """
        from tracegrade.receive.listener import Listener  # servers take long to load

        if self._listener is None:
            self._listener = self._open.enter_context(Listener(self._collected.receive))
        if set_environment:
            patched = self._open.enter_context(pytest.MonkeyPatch.context())
            for name, value in exporting_to(self._listener.endpoint).items():
                if value is None:
                    patched.delenv(name, raising=False)
                else:
                    patched.setenv(name, value)
        return self._listener.endpoint

    def runs(self, times: int) -> Iterator[int]:
        """Count from 1 to `times`; what the body of the loop does begins traces of its own each time.

        Without it, runs within one span would be one trace. Works in tests that are coroutines too.
        """
        for number in range(1, times + 1):
            token = context.attach(context.Context())
            try:
                yield number
            finally:
                context.detach(token)

    def clear(self) -> None:
        """Forget what was collected so far, such as what a set-up did."""
        self._collected.clear()

    def judge(self, *rules: str | Path, traces: int = 1, within: float = 5.0) -> JudgedTest:
        """Judge everything that was collected so far.

        Waits before, until all spans have ended and no trace lacks one, in other threads and processes too.

        Args:
            rules: rule files, folders of them, and ``builtin:NAME``; relative to the root folder of pytest. Without
                any, those of the setting ``tracegrade_rules``.
            traces: how many traces are expected, to wait for them.
            within: wait no longer than this, in seconds.

        The test fails when nothing was collected, and when a rule cannot be read.
        """
        __tracebackhide__ = True
        return self._judge(self._load(rules or self._rules), traces, within)

    def assert_passes(
        self,
        rule: Spec | Sequence[Mapping[str, Any]],
        *,
        at_least: float = 1.0,
        runs: int = 1,
        rules: Paths = (),
        within: float = 5.0,
    ) -> None:
        """Judge what was collected, and fail the test unless `rule` passes.

        Args:
            rule: its id; or the rule itself, as it stands in a file, or only what stands under ``evaluate``.
            at_least: the share of passes among all that the rule judged, 0 to 1; only a pass counts as one.
            runs: the least number of subjects (agent runs, traces, sessions, tool calls) that it has to judge.
            rules: where the rule is, as of `judge`.
            within: as of `judge`.
        """
        __tracebackhide__ = True
        if isinstance(rule, str):
            if "/" in rule or rule.endswith((".yaml", ".yml")):
                self._fail(f"{rule!r} is a path, not the id of a rule: assert_passes(ID, rules={rule!r})")
            paths = [rules] if isinstance(rules, str | Path) else rules
            rule_id, rule_set = rule, self._load(paths or self._rules)
        else:
            inline = self._or_failure(partial(_inline, rule))
            rule_id, rule_set = inline.id, RuleSet([inline])
        judged = self._judge(rule_set, 1, within)
        if len(judged.outcomes(rule_id)) < runs:  # those to come may have begun in no thread yet
            judged = self._judge(rule_set, runs, within)
        judged.assert_passes(rule_id, at_least=at_least, runs=runs)

    def _load(self, paths: Iterable[str | Path]) -> RuleSet:
        __tracebackhide__ = True
        found = [path if str(path).startswith(BUILTIN) else self._root / path for path in paths]
        if not found:
            self._fail("no rules to judge by: name their files, or set tracegrade_rules in the settings of pytest")
        return self._or_failure(lambda: load_rules(found, allow_code=self._allow_code))

    def _or_failure(self, read: Callable[[], Read]) -> Read:
        """What `read` gives; a mistake in a rule is the failure of the test, without the way to where it was found."""
        __tracebackhide__ = True
        try:
            return read()
        except TraceGradeError as error:
            mistake = str(error)
        self._fail(mistake)

    def _judge(self, rule_set: RuleSet, traces: int, within_s: float) -> JudgedTest:
        __tracebackhide__ = True
        current = trace.get_current_span().get_span_context()
        if (name := self._collected.open_name(current.span_id.to_bytes(8))) is not None:
            self._fail(f"judged within the span {name!r}, which has not ended: judge after its 'with' block")
        self._collected.wait(traces, within_s, _QUIET_S if self._listener is not None else 0.0)
        requests = self._collected.requests()
        if not requests:
            self._fail(self._nothing_came())
        rules = RuleSet(map(_unsampled, rule_set.rules), rule_set.documents)
        judged = replay_sources(requests, TracesSettings(), rules, NOT_STORED, tenant=rules.tried_as)
        latest = {item.key: item for item in judged}  # a session is judged after each of its traces
        return JudgedTest(list(latest.values()), rules, self._fail)

    def _nothing_came(self) -> str:
        if names := self._collected.open_names:
            return f"no span has ended; still open: {', '.join(names)}"
        refused = {} if self._listener is None else self._listener.refused()
        lines = [_NOTHING_CAME]
        lines += [f"The listener refused {number} requests: {reason}." for reason, number in refused.items()]
        return "\n".join(lines)


def _inline(rule: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Rule:
    """A rule that is written in the test.

    Raises:
        FileError: mistakes in it.
        TraceGradeError: as of `load_rules`.
    """
    if not isinstance(rule, Mapping):
        rule = {"evaluate": [*rule]}
    elif "evaluator" in rule:
        rule = {"evaluate": [rule]}
    load_plugins()
    written: dict[str, JsonValue] = {"id": INLINE, **rule}
    return validate(Document("the rule in the test", written), Rule)


def _unsampled(rule: Rule) -> Rule:
    """As `rule`, judging every trace."""
    return rule if rule.sample.share == 1.0 else rule.model_copy(update={"sample": Sample()})
