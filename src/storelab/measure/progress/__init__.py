"""What a person sees while a campaign runs: lines, the state that others may read, and a display in a terminal.

May import: `workloads`, `engines`, `host`, `core`, `given_up`.
"""
