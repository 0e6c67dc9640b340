"""The ``repr`` of Python objects, where instrumentations write it: ``ToolCall(tool_name='ping', arguments={})``."""

import ast
import re
import warnings

from tracegrade.extract.decode.values import MAX_LITERAL_CHARS, MAX_NESTING, literal_json
from tracegrade.model.json_value import JsonValue

CLASS = "__class__"

# Members of enumerations have a repr that is no Python: <ChatRole.USER: 'user'>.
_ENUM_MEMBER = re.compile(r"<\w+\.\w+: ('[^']*'|\d+)>")


def read_repr(text: str) -> JsonValue:
    """An object as its keyword arguments, with the name of its class under `CLASS`; None where it cannot be read."""
    if len(text) > MAX_LITERAL_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(_ENUM_MEMBER.sub(r"\1", text), mode="eval")
        return _json_of(tree.body, 0)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _json_of(node: ast.expr, depth: int) -> JsonValue:
    """An expression as JSON.

    Raises:
        ValueError: it is neither a literal nor made of calls with keywords, or is nested too deep.
    """
    if depth > MAX_NESTING:
        raise ValueError("nested too deep")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        members = {word.arg: _json_of(word.value, depth + 1) for word in node.keywords if word.arg is not None}
        return {CLASS: node.func.id, **members}
    if isinstance(node, ast.List | ast.Tuple):
        return [_json_of(item, depth + 1) for item in node.elts]
    if isinstance(node, ast.Dict):
        names = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        if len(names) == len(node.keys):
            return {name: _json_of(value, depth + 1) for name, value in zip(names, node.values, strict=True)}
    return literal_json(ast.literal_eval(node))
