"""Errors about arguments, which the command line tells in its own names."""

from collections.abc import Mapping


class ArgumentError(ValueError):
    """A value that an argument must not have, told in the names of the function's arguments.

    The message has each argument in backticks. `renamed` is the same message for a caller who knows the arguments by
    other names, as on the command line.

    >>> error = ArgumentError("Give `logits` or `probabilities`, not both.", "logits", "probabilities")
    >>> error.renamed({"logits": "`--logits`", "probabilities": "`--probs`"})
    'Give `--logits` or `--probs`, not both.'
    """

    def __init__(self, message: str, *arguments: str) -> None:
        super().__init__(message)
        self.arguments = arguments

    def renamed(self, names: Mapping[str, str]) -> str:
        """The message with other names for the arguments; an argument without one keeps its own."""
        message = str(self)
        for argument in self.arguments:
            message = message.replace(f"`{argument}`", names.get(argument, f"`{argument}`"))
        return message
