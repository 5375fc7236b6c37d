"""What a model must say about itself to join the chain: one `ModelSpec`, one row of `MODELS`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from priorline.config_io import Config


class ModelConfig(Config):
    """Base of an architecture's configuration; ``kind`` is the model's row in `MODELS`."""

    kind: str

    @property
    def most_classes(self) -> int | None:
        """Most classes that one forward pass tells apart; None: it predicts no classes."""
        return None

    @property
    def problem_types(self) -> tuple[str, ...]:
        """What the model can be judged and registered for: ``classification``, ``regression`` ..."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model as the rest of the pipeline sees it: names and callables, no tensors."""

    kind: str
    """Key in `MODELS`; also the folder's name."""
    title: str
    """The name as its authors write it, for reports."""
    config_class: type[ModelConfig]
    presets: dict[str, Callable[[], ModelConfig]]
    """Named sizes, for example ``smoke``, ``small`` and the paper's."""
    build: Callable[[Any], nn.Module]
    """Config in, freshly initialised module out; draws from torch's global generator."""
    objective: str
    """Key in `priorline.training.objectives.OBJECTIVES`."""
    parts: tuple[str, ...]
    """Prefixes of parameter names that a curriculum stage may train alone."""
    read_official: Callable[[Path], tuple[ModelConfig, dict[str, Tensor]]] | None = None
    """Reads a checkpoint of the authors' package: configuration and weights by our names; None: unknown here."""
    official_note: str = ""
    """Where official checkpoints come from and under which licence, in words."""
