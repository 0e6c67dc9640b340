import pytest

from tracegrade.model.errors import WrongValue
from tracegrade.rule.load import load_rules
from tracegrade.rule.semantic_model import StaticModel


def test_a_folder_without_a_model_is_refused() -> None:
    with pytest.raises(WrongValue, match="semantic_model: no folder"):
        StaticModel("/nowhere")
    with pytest.raises(WrongValue, match="semantic_model: no folder"):
        load_rules(["builtin:default"], semantic_model="/nowhere")
