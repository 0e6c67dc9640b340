"""Settings of access: what all servers have in common."""

from pydantic import Field

from tracegrade.document.file_model import FileModel


class AccessSettings(FileModel):
    """Who may call, on every server that has ``auth``."""

    tokens_file: str | None = Field(
        None, description="The file of the tokens that `tracegrade tokens` makes; null: tokens.json in the data folder"
    )
