"""One model, asked with messages and tools; where it refuses ``tool_choice: required``, asked again with ``auto``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from tracegrade.model.json_value import JsonValue
from tracegrade.suites.models.client import Answer, ModelError
from tracegrade.suites.models.reply import Reply, read_reply
from tracegrade.suites.models.settings import Target

ToolChoice: TypeAlias = Literal["required", "auto", "none"]
TOOL_CHOICES: tuple[ToolChoice, ...] = ("required", "auto", "none")

FELL_BACK = "tool_choice required was refused, so auto was asked for"


class Client(Protocol):
    """What `ModelClient` does."""

    def ask(self, body: dict[str, Any]) -> Answer:
        """The answer to one request."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply, when its request began and ended (ns since 1970 UTC), and whether ``required`` became ``auto``."""

    reply: Reply
    begun_ns: int
    ended_ns: int
    fell_back: bool = False


class AskedModel:
    """One model with the parameters of a run; used by several threads."""

    def __init__(
        self, target: Target, client: Client, tool_choice: ToolChoice, temperature: float, take_turn: Callable[[], Any]
    ) -> None:
        """Ask nothing yet.

        Args:
            target: the model.
            client: how its provider is asked.
            tool_choice: what it is told about calling tools.
            temperature: of every request, unless the model takes none.
            take_turn: a context in which one request is under way, such as a semaphore's.
        """
        self.target = target
        self.tool_choice = tool_choice
        self.temperature = temperature
        self._client = client
        self._take_turn = take_turn
        self._refuses_required = False

    def ask(self, messages: Sequence[JsonValue], tools: Sequence[JsonValue], names: Sequence[str]) -> Asked:
        """The model's reply to `messages`.

        Args:
            messages: the conversation so far.
            tools: as the interface has them; with none, no tool choice is sent.
            names: the names of `tools`.

        Raises:
            ModelError: there is no reply that can be read.
            Stopped: the run ended meanwhile.
        """
        body: dict[str, Any] = {
            "model": self.target.model_id,
            "messages": list(messages),
            **self.target.model.extra_body,
        }
        if self.target.model.sends_temperature:
            body["temperature"] = self.temperature
        searched = names if tools and self.tool_choice != "none" else ()
        if not tools:
            return _asked(self._answer(body), searched)
        body["tools"] = list(tools)
        if self.tool_choice == "required" and not self._refuses_required:
            try:
                answer = self._answer(body | {"tool_choice": "required"})
            except ModelError as refused:
                if not refused.refuses_required:
                    raise
                try:
                    answer = self._answer(body | {"tool_choice": "auto"})
                except ModelError:
                    raise refused from None  # it was not about the tool choice
                self._refuses_required = True  # the next request need not find out again
                return _fallen_back(lambda: answer, searched)
            return _asked(answer, searched)
        if self.tool_choice == "required":
            return _fallen_back(lambda: self._answer(body | {"tool_choice": "auto"}), searched)
        return _asked(self._answer(body | {"tool_choice": self.tool_choice}), searched)

    def _answer(self, body: dict[str, Any]) -> Answer:
        with self._take_turn():
            return self._client.ask(body)


def _asked(answer: Answer, tools: Sequence[str], fell_back: bool = False) -> Asked:
    return Asked(read_reply(answer.document, tools), answer.begun_ns, answer.ended_ns, fell_back)


def _fallen_back(answer: Callable[[], Answer], tools: Sequence[str]) -> Asked:
    """The reply to a request for ``auto`` in place of ``required``; an error says so, too."""
    try:
        return _asked(answer(), tools, fell_back=True)
    except ModelError as error:
        error.fell_back = True
        raise
