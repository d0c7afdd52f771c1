"""Every console block of README.md and docs/ runs as it is printed, in a separate checkout, unless it says what it
needs first.

The first one, `make demo` in a fresh clone, is run by test_stranger.py, which looks at what it made.
"""

import console_blocks
import pytest

pytestmark = [pytest.mark.real, pytest.mark.heavy]
RUN = [b for b in console_blocks.blocks()[1:] if not b.needs]


@pytest.mark.parametrize("block", [pytest.param(b, id=b.name.replace("/", "-")) for b in RUN])
def test_console_block_runs(block, tmp_path):
    console_blocks.copy(tmp_path)
    assert console_blocks.failure(block, tmp_path) == ""
