"""Engines of S3 measure servers with quirks: what fails must say why, so that engines do not disagree in silence."""

import argparse
import sys

from common import ROOT, say, sized

sys.path.insert(0, str(ROOT / "tests" / "support"))


def figures(args: argparse.Namespace) -> dict[str, float]:
    """Return counts: verdicts (engine, workload and quirk), and those that no reason explains."""
    import quirky_s3

    names = [*quirky_s3.QUIRKS]
    found = quirky_s3.everything(*sized(args, names, names, names[:2]))
    wrong = quirky_s3.disagreeing(found)
    for line in wrong:
        say(f"quirk: {line}")
    return {"quirks": sum(map(len, found.values())), "quirks_disagreeing": len(wrong)}
