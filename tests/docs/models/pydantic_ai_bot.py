"""The model of the page's example, scripted: one tool call, then an answer."""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("get_forecast", {"city": "Paris"})])
    return ModelResponse(parts=[TextPart("Sunny.")])


MODEL = FunctionModel(respond)
