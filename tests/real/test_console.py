"""Every console block of README.md and docs/ runs as it stands, in a checkout of its own, unless it says what it needs first."""

import console_blocks
import pytest

pytestmark = pytest.mark.real
RUN = [b for b in console_blocks.blocks() if not b.needs]


@pytest.mark.parametrize(
    "block", [pytest.param(b, id=b.name.replace("/", "-"), marks=[pytest.mark.heavy] * b.long) for b in RUN]
)
def test_a_console_block_runs_as_it_stands(block, tmp_path):
    console_blocks.copy(tmp_path)
    assert console_blocks.failure(block, tmp_path) == ""
