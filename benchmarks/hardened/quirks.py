"""Run all S3 engines against servers with quirks: failures must give a reason, so that no engine differs silently."""

import argparse
import sys

from common import ROOT, say, sized

sys.path.insert(0, str(ROOT / "tests" / "support"))


def figures(args: argparse.Namespace) -> dict[str, float]:
    """Return the number of verdicts (engine, workload and quirk), and of verdicts without a reason."""
    import quirky_s3

    names = [*quirky_s3.QUIRKS]
    found = quirky_s3.everything(*sized(args, names, names, names[:2]))
    wrong = quirky_s3.disagreeing(found)
    for line in wrong:
        say(f"quirk: {line}")
    return {"quirks": sum(map(len, found.values())), "quirks_disagreeing": len(wrong)}
