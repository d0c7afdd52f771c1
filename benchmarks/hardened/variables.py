"""Check that no request changes if a user sets variables and files that S3 clients read, separately or all at once."""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from common import ROOT, say, sized

from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Endpoint

sys.path.insert(0, str(ROOT / "tests" / "support"))

CLIENTS = ("boto", "obstore", "fsspec", "uproot", "s5cmd", "presigned")
# clients of staging, checks and clean-up, which also run in the environment of the user
COORDINATOR = ("boto", "fsspec", "s5cmd")
PROGRAMS = {"loadgen": "storelab.engines.loadgen:binary", "davix": "storelab.engines.davix_program:binary"}


def figures(args: argparse.Namespace) -> dict[str, float]:
    """Return counts: pairs of a client and a variable, and pairs with different requests or another destination."""
    import every_client
    from bucket_server import bucket
    from quirky_s3 import installed
    from user_environment import user_environment

    clients = (*CLIENTS, *(name for name, program in PROGRAMS.items() if installed(program)))
    with tempfile.TemporaryDirectory() as name, bucket() as server, bucket() as elsewhere:
        folder, end = Path(name), Endpoint(server.url)
        plain = every_client.unset(folder / "nothing")
        user = {k: v for k, v in user_environment(folder / "home", elsewhere.url).items() if v}

        def sent(environ: dict[str, str], *names: str) -> dict[str, object]:
            """Return client -> its requests, or its error."""
            server.objects.clear()
            failed = every_client.run(end, environ, *names)
            out: dict[str, object] = defaultdict(list)
            for one in every_client.requests(server):
                out[one[1].rpartition("/")[2]].append(one)
            out["elsewhere"] = len(elsewhere.received)
            elsewhere.received.clear()
            return out | failed

        expected, own = sent(plain, *clients), sent(plain, *COORDINATOR)
        single = [{name: value} for name, value in user.items()]
        pairs = wrong = 0
        for chosen in (user, *sized(args, single, single[::8], ())):
            given = plain | chosen
            for found, right in (
                (sent(environment.explicit(given), *clients), expected),
                (sent(given, *COORDINATOR), own),
            ):
                other = [who for who in {*found, *right} if found.get(who) != right.get(who)]
                pairs, wrong = pairs + len(right), wrong + len(other)
                for who in other:
                    say(f"environment: {' '.join(chosen) if len(chosen) == 1 else 'all'} changes requests of {who}")
    return {"environment_pairs": pairs, "environment_differences": wrong}
