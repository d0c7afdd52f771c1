"""Check the answers of `--json` with the published schema."""

import json

import jsonschema
from paths import ROOT

from storelab import __version__

SCHEMA = json.loads((ROOT / "docs/machine.schema.json").read_text())


def valid(command: str, text: str) -> dict:
    """Return the only object in the text, after it was checked against the published schema."""
    content = json.loads(text)
    wanted = {"$ref": f"#/$defs/{command.replace(' ', '_')}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(wanted).validate(content)
    assert content["command"] == command and content["storelab"] == __version__
    return content
