"""Run every console block of README.md and docs/ as printed, in a separate checkout, unless it has a `# needs:` line.

test_stranger.py runs the first one, `make demo` in a fresh clone, and checks its results.
"""

import console_blocks
import pytest

pytestmark = [pytest.mark.real, pytest.mark.heavy]
RUN = [b for b in console_blocks.blocks()[1:] if not b.needs]


def param(block: console_blocks.Block):
    """Return a block with its name; blocks with a testbed run one at a time, because it occupies the machine."""
    testbed = any("testbed" in command for command in block.commands)
    group = "testbed" if testbed else f"console-{block.page}"
    return pytest.param(block, id=block.name.replace("/", "-"), marks=pytest.mark.xdist_group(group))


@pytest.mark.parametrize("block", [*map(param, RUN)])
def test_console_block_runs(block, tmp_path):
    console_blocks.copy(tmp_path)
    assert console_blocks.failure(block, tmp_path) == ""
