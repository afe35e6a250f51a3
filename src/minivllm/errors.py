"""The base of every error that is the user's to mend: its message names the thing, the value and the remedy."""


class MinivllmError(Exception):
    """A command line shows the message alone, in one line."""
