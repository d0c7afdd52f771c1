"""The two ways to end without a result: a person's mistake (exit code 2) and a measurement that failed (1). Imports
nothing."""


class UserError(Exception):
    """A person's mistake: one line that names the place, the problem with its value, and the mend; exit code 2."""

    def __init__(self, place: str, problem: str, mend: str = ""):
        self.place, self.problem, self.mend = place, problem, mend
        line = f"{place}: {problem}" + (f"; {mend}" if mend else "")
        super().__init__(" ".join(line.split()))


class MeasurementFailed(Exception):
    """A point (or a staging) that was tried and failed for a reason outside the configuration; exit code 1."""
