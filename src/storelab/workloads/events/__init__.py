"""`events`: jobs process the events of their own files; the clients and their cached file objects.

May import: what `workloads` may.
"""
