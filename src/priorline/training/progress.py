"""What a run knows of its past: counters, curve and the guard against losses that are not finite."""

from dataclasses import asdict, dataclass, field
from typing import Any

from priorline.errors import TrainingError

_GUARD_WINDOW = 100


@dataclass(slots=True, kw_only=True)
class Progress:
    """All of a run's state but tensors; JSON-ready, so that a resumed run goes on exactly."""

    step: int = 0
    """Updates done or skipped."""
    nonfinite_batches: int = 0
    """Micro-batches left out for a non-finite loss."""
    nonfinite_updates: int = 0
    """Updates left out for a non-finite gradient, or for want of any finite loss."""
    recent_batches: list[bool] = field(default_factory=list)
    """Whether each of the last 100 micro-batches was left out."""
    recent_updates: list[bool] = field(default_factory=list)
    """The same for updates."""
    since_log: dict[str, list[float]] = field(default_factory=dict)
    """Values of each step since the last log record, by metric."""
    final_loss: float | None = None
    """Mean training loss of the last log record that has one."""
    validation: dict[str, float] = field(default_factory=dict)
    """``validation_loss`` and metrics of the last validation; empty before the first."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Log records so far, without speed and memory."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def note_batch(self, *, is_left_out: bool) -> None:
        """Count one micro-batch."""
        self.nonfinite_batches += is_left_out
        self.recent_batches = [*self.recent_batches, is_left_out][-_GUARD_WINDOW:]

    def note_update(self, *, is_left_out: bool) -> None:
        """Count one update."""
        self.nonfinite_updates += is_left_out
        self.recent_updates = [*self.recent_updates, is_left_out][-_GUARD_WINDOW:]

    def note_values(self, values: dict[str, float]) -> None:
        """Keep a step's metrics for the next log record."""
        for name, value in values.items():
            self.since_log.setdefault(name, []).append(value)

    def drain_means(self) -> dict[str, float]:
        """Return the mean of each metric since the last call."""
        means = {name: sum(values) / len(values) for name, values in self.since_log.items()}
        self.since_log = {}
        self.final_loss = means.get("loss", self.final_loss)
        return means

    def check(self, max_nonfinite_share: float) -> None:
        """Raise `TrainingError` when more than the allowed share of the last 100 was left out."""
        allowed = max_nonfinite_share * _GUARD_WINDOW
        for what, recent in (("losses", self.recent_batches), ("gradients", self.recent_updates)):
            if sum(recent) > allowed:
                raise TrainingError(
                    f"{sum(recent)} of the last {len(recent)} {what} were not finite at step {self.step}, "
                    f"more than training.max_nonfinite_share={max_nonfinite_share:g} allows in 100; lower "
                    "the learning rate or clip_norm, or look at the data, and run again"
                )
