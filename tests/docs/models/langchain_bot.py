"""The model of the page's example, scripted: one tool call, then an answer."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


call = {"name": "get_forecast", "args": {"city": "Paris"}, "id": "call_1"}
MODEL = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Sunny.")]))
