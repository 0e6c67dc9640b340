"""The forms that pages post."""

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def posted(request: Request, most_bytes: int) -> dict[str, str] | None:
    """The last value of each field, by name; None when the form is longer than `most_bytes`."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
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
