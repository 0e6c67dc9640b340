"""The forms that pages post."""

from email import message_from_bytes
from email.message import Message
from email.policy import HTTP
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def posted(request: Request, most_bytes: int) -> dict[str, str] | None:
    """The last value of each field, by name; None when the form is longer than `most_bytes`."""
    body = await _body(request, most_bytes)
    if body is None:
        return None
    found = parse_qs(body.decode("ascii", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}


async def form_of(request: Request, most_bytes: int = 1 << 19) -> dict[str, str]:
    """As `posted`.

    Raises:
        HTTPException: 400, the form is too long.
    """
    found = await posted(request, most_bytes)
    if found is None:
        raise HTTPException(400, f"The form is longer than {most_bytes} bytes.")
    return found


async def parts_of(request: Request, most_bytes: int) -> dict[str, bytes]:
    """The fields of a form that has a file (``multipart/form-data``), by name: the last of each, as it was sent.

    Raises:
        HTTPException: 400, it is no such form, or too long.
    """
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise HTTPException(400, "The form has to be sent as multipart/form-data.")
    body = await _body(request, most_bytes)
    if body is None:
        raise HTTPException(400, f"The form is longer than {most_bytes} bytes.")
    whole = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body, policy=HTTP)
    if not whole.is_multipart():
        raise HTTPException(400, "The form has no fields.")
    return {str(name): _content(part) for part in whole.iter_parts() if (name := _name_of(part))}


async def _body(request: Request, most_bytes: int) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


def _name_of(part: Message) -> object:
    return part.get_param("name", header="content-disposition")


def _content(part: Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""
