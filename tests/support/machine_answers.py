"""Check the output of `--json` against the published schema."""

import json

import jsonschema
from paths import ROOT

from storelab import __version__

SCHEMA = json.loads((ROOT / "docs/machine.schema.json").read_text())


def valid(command: str, text: str) -> dict:
    """Check the only JSON object in the text against the published schema, and return it."""
    content = json.loads(text)
    wanted = {"$ref": f"#/$defs/{command.replace(' ', '_')}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(wanted).validate(content)
    assert content["command"] == command and content["storelab"] == __version__
    return content
