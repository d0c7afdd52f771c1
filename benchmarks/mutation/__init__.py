"""Planted faults: what they are (`operators`), which tests run which line (`traced`), how one is tried (`server`)."""
