"""What can be wrong with a document."""


class ResultsError(Exception):
    """A document that cannot be read. Its text names the file and the reason."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        #: The file, or what else was read.
        self.source = source
        #: What is wrong with it.
        self.reason = reason


class UnknownVersion(ResultsError):
    """A document of a version that this package does not read."""


class UnknownTable(ResultsError, KeyError):
    """A table that documents of this kind do not have."""

    def __str__(self) -> str:
        return Exception.__str__(self)
