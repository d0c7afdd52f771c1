"""A transport of the read planner for an object in memory."""


class Memory:
    """An object in memory with the interface of a transport. log: (start, stop) of each request."""

    def __init__(self, data: bytes, parallel: int = 8):
        self.data, self.parallel, self.requests, self.log = data, parallel, 0, []

    def fetch(self, starts, stops):
        self.requests += len(starts)
        self.log += list(zip(starts, stops, strict=True))
        return [self.data[a:b] for a, b in zip(starts, stops, strict=True)]

    def size(self):
        return len(self.data)
