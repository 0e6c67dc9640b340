"""Images and other files in messages: what they are, without their bytes."""

from tracegrade.model.json_value import JsonValue

# Members that hold a file: the conventions', OpenAI's, Anthropic's, Gemini's and Bedrock's.
_HOLDERS = ("image_url", "source", "inlineData", "inline_data", "fileData", "file_data", "image", "document", "file")
_TYPES = ("mime_type", "media_type", "mimeType", "format", "modality")
_BYTES = ("content", "data", "bytes", "file_data")
_KINDS = ("image", "blob", "uri", "file", "input_image", "image_url", "input_file", "audio", "input_audio", "document")
_MAX_DEPTH = 3


def media_of(part: dict[str, JsonValue]) -> str | None:
    """Type and size of the file that a part of a message holds, such as ``image/png, 12 KB``; None where it is none.

    A file that is elsewhere is named by its type alone: its address is not asked, and not given.
    """
    kind = part.get("type")
    if not (isinstance(kind, str) and kind in _KINDS) and not any(isinstance(part.get(key), dict) for key in _HOLDERS):
        return None
    return _described(part, kind if isinstance(kind, str) and kind in _KINDS else "file", _MAX_DEPTH)


def _described(part: dict[str, JsonValue], kind: str, depth: int) -> str:
    for key in _HOLDERS:
        inner = part.get(key)
        if isinstance(inner, dict) and depth:
            return _described(inner, key if kind == "file" else kind, depth - 1)
        if isinstance(inner, str) and key == "image_url":
            return _of_address(inner, kind)
    if isinstance(address := part.get("url"), str):
        return _of_address(address, kind)
    name = next((value for key in _TYPES if isinstance(value := part.get(key), str) and value), kind)
    held = next((value for key in _BYTES if isinstance(value := part.get(key), str)), None)
    return f"{name}, {_size(held)}" if held else f"{name}, stored elsewhere"


def _of_address(address: str, kind: str) -> str:
    head, comma, held = address.partition(",")
    if head.startswith("data:") and comma:
        return f"{head[5:].partition(';')[0] or kind}, {_size(held)}"
    return f"{kind}, stored elsewhere"


def _size(base64: str) -> str:
    size = len(base64.rstrip("=")) * 3 // 4
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.3g} KB" if size < 1_000_000 else f"{size / 1e6:.3g} MB"
