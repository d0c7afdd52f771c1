"""What `--json` prints, command by command: closed models, so that no key is there that is not declared.

docs/machine.md and docs/machine.schema.json are made from them (`storelab docs`). A key that is here stays, with its
meaning; SCHEMA_VERSION rises when one goes or changes. Units end a key's name: `_s` seconds, `_bytes`, `_percent`.
"""

from storelab.cli.machine import of_analysis, of_measuring
from storelab.cli.machine.declared import Answer

ANSWERS: dict[str, type[Answer]] = {
    "check": of_measuring.Check,
    "plan": of_measuring.Plan,
    "status": of_measuring.Status,
    "doctor": of_measuring.Doctor,
    "size": of_analysis.Size,
    "verify": of_analysis.Verify,
    "seal": of_analysis.Seal,
    "verdict": of_analysis.Verdicts,
    "compare": of_analysis.Compare,
    "history": of_analysis.History,
    "history add": of_analysis.Added,
}
