"""Planted faults: their kinds (`operators`), the tests that run a line (`traced`), and how to try one (`server`)."""
