"""The errors a caller of Priorline may want to catch, each with the exit code of the command line."""


class PriorlineError(Exception):
    """Base of every error raised on purpose; the message says what was got, wanted and to do."""

    exit_code = 1


class ConfigError(PriorlineError, ValueError):
    """A configuration names an unknown key or holds a value out of range."""

    exit_code = 2


class InputError(PriorlineError, ValueError):
    """The caller's data cannot be used as given: unreadable file, missing column, wrong shape."""

    exit_code = 2


class GateRejected(PriorlineError):
    """A whole batch of real data failed its contract; nothing was predicted."""

    exit_code = 3


class ShardError(PriorlineError):
    """A prior shard is missing, truncated or does not match its checksum."""


class CheckpointError(PriorlineError):
    """A checkpoint is missing, corrupt, or was written by another configuration."""


class TrainingError(PriorlineError):
    """Training cannot go on, for example because too many losses were not finite."""


class RegistryError(PriorlineError):
    """The model registry lacks what was asked for, or refuses a change."""
