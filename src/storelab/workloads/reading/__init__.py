"""Workloads that read ROOT files, and the clients of `replay` and `events`."""
