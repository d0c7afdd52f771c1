"""What every object of `--json` has, and how one is declared (room `cli`)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
TIME = "in UTC, like 2026-11-23T16:40:00Z"


class Said(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(Said):
    """What every object has."""

    command: str = Field(description="The command that printed it.")
    schema_version: Literal[1] = Field(
        description="Rises when a key goes or changes its meaning; a new key is no change."
    )
    storelab: str = Field(description="Version of storelab.")
