"""Engines: what moves the bytes. One file each; a workload's `client()` chooses by the axis `engine` (level 2)."""
