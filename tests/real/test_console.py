"""Every console block of README.md and docs/ runs as it stands, in a checkout of its own, unless it says what it needs first.

The first one, `make demo` in a fresh clone, is run by test_stranger.py, which looks at what it made.
"""

import console_blocks
import pytest

pytestmark = pytest.mark.real
RUN = [b for b in console_blocks.blocks()[1:] if not b.needs]


def heavy(block: console_blocks.Block) -> bool:
    """What takes long, and what makes tables of the large sealed campaigns, ten seconds each, is left to .ci/run."""
    return block.long or any("results/" in command for command in block.commands)


@pytest.mark.parametrize(
    "block", [pytest.param(b, id=b.name.replace("/", "-"), marks=[pytest.mark.heavy] * heavy(b)) for b in RUN]
)
def test_a_console_block_runs_as_it_stands(block, tmp_path):
    console_blocks.copy(tmp_path)
    assert console_blocks.failure(block, tmp_path) == ""
