"""The model of the page's example, scripted: one tool call, then an answer."""

from agents import Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Scripted(Model):
    def __init__(self):
        self.turn = 0

    async def get_response(self, *args, **kwargs):
        self.turn += 1
        if self.turn == 1:
            out = ResponseFunctionToolCall(
                arguments='{"city": "Paris"}', call_id="call_1", name="get_forecast", type="function_call"
            )
        else:
            text = ResponseOutputText(annotations=[], text="Sunny.", type="output_text")
            out = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[out], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


MODEL = Scripted()
