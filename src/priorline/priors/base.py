"""What a prior promises: a config and `sample`, a pure function of (config, batch spec)."""

from typing import Annotated, Protocol, TypeVar, runtime_checkable

from pydantic import AfterValidator

from priorline.batches import Batch, BatchSpec
from priorline.config_io import Config


def _ordered(interval: tuple[float, float]) -> tuple[float, float]:
    if interval[1] < interval[0]:
        raise ValueError(f"got low={interval[0]} above high={interval[1]}; swap them")
    return interval


Interval = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""(low, high) of a uniform or log-uniform distribution."""
IntegerInterval = Annotated[tuple[int, int], AfterValidator(_ordered)]
"""(low, high), both ends included."""


class PriorConfig(Config):
    """Base of a prior's configuration; ``kind`` is the prior's row in `PRIORS`."""

    kind: str

    @property
    def most_classes(self) -> int | None:
        """Most classes of a target that this prior draws; None: it draws no classes."""
        return None


P = TypeVar("P", bound=PriorConfig, covariant=True)


@runtime_checkable
class Prior(Protocol[P]):
    """A distribution over datasets."""

    @property
    def config(self) -> P:
        """The frozen configuration that, with a `BatchSpec`, fixes every byte."""
        ...

    def sample(self, spec: BatchSpec) -> Batch:
        """Return the batch that ``spec`` names.

        The same spec gives the same bytes in any process, whatever the number of threads or
        workers and whatever was sampled before.
        """
        ...
