"""The one training loop: any model, any objective, batches and callables in, a result out.

A run is a pure function of its arguments. Killed at any moment and called again with the same
arguments, it goes on from its newest intact checkpoint and ends on the same weights, bit for bit
(same device and number of threads).
"""

import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from priorline.batches import Batch
from priorline.checkpoints import latest_checkpoint, save_checkpoint, sole_writer
from priorline.errors import CheckpointError, ConfigError, TrainingError
from priorline.seeding import derive_seed
from priorline.training.allocator import keep_freed_memory
from priorline.training.config import TrainConfig
from priorline.training.curriculum import Curriculum, micro_batches_per_step
from priorline.training.objectives import OBJECTIVES
from priorline.training.optim import (
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
    set_learning_rate,
    train_only,
)
from priorline.training.precision import allow_tf32, build_autocast
from priorline.training.progress import Progress
from priorline.training.throughput import Throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a run did; the trained weights are in the model that was passed in."""

    steps: int
    """Updates done over all calls."""
    resumed_from: int | None
    """Step of the checkpoint that this call went on from; None: it started anew."""
    stopped_early: bool
    """True when ``should_stop`` ended it before the last step."""
    final_loss: float
    """Mean training loss of the last log record; NaN if there is none yet."""
    validation_loss: float
    """Of the last validation; NaN if there is none yet."""
    nonfinite_batches: int
    """Micro-batches left out for a non-finite loss, over all calls."""
    curve: list[dict[str, float]]
    """Log records of all calls, without speed and memory."""


def train(
    model: nn.Module,
    *,
    objective: str,
    batches: Callable[[int], Iterator[Batch]],
    validation: Callable[[], Iterable[Batch]],
    config: TrainConfig,
    seed: int,
    work_dir: Path,
    identity: dict[str, Any],
    device: str = "cpu",
    log_metrics: Callable[[dict[str, float], int], None],
    on_checkpoint: Callable[[Path, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    resume: bool = True,
) -> TrainResult:
    """Train ``model`` in place through all stages of ``config`` and return what happened.

    Parameters
    ----------
    objective : str
        Key of `OBJECTIVES`.
    batches : callable
        Start index to an iterator over the micro-batches of `Curriculum.train_specs` from there on.
    validation : callable
        Returns the validation micro-batches; called anew for each validation.
    work_dir : Path
        Gets ``checkpoints/``; one process at a time.
    identity : dict
        All that fixes the weights (config, data), JSON-ready; a checkpoint of another is refused.
    device : str
        Where the model is moved to and trains.
    log_metrics : callable
        Called with (name to value, step) every ``log_every_steps``, at each validation and at the
        end. Steps only grow, also over a kill and resume.
    on_checkpoint : callable, optional
        Called with (folder, step) after each checkpoint is safely on disk.
    should_stop : callable, optional
        Asked after every step; True writes a checkpoint and returns.
    resume : bool
        Whether to go on from a checkpoint in ``work_dir``, if there is one.

    Raises
    ------
    ConfigError
        If ``config`` asks for what the model or device lacks.
    CheckpointError
        If a checkpoint is of another identity, all are corrupt, none can be written, or another
        process trains in ``work_dir``.
    TrainingError
        If too many losses or gradients are not finite, validation diverges, or batches or GPU memory
        run out.
    """
    with sole_writer(work_dir), _fixed_environment(config, torch.device(device)):
        run = _Run(model, objective, config, seed, work_dir / "checkpoints", identity, torch.device(device))
        resumed_from = run.restore() if resume else None
        log = _ForwardLog(run.directory / "last_logged_step", log_metrics, resume)
        progress, total = run.progress, config.total_steps
        stopped_early = False
        with run.open_stream(batches) as stream:
            while progress.step < total and not stopped_early:
                run.begin_step()
                run.train_step(stream)
                is_last = progress.step == total
                is_validation = is_last or progress.step % config.validation_every_steps == 0
                if is_validation:
                    run.validate(validation())
                if is_validation or progress.step % config.log_every_steps == 0:
                    log(run.drain_record(is_validation) | run.meter.read(), progress.step)
                stopped_early = not is_last and should_stop is not None and should_stop()
                if is_last or stopped_early or progress.step % config.checkpoint_every_steps == 0:
                    path = run.save()
                    if on_checkpoint is not None:
                        on_checkpoint(path, progress.step)
    return TrainResult(
        steps=progress.step,
        resumed_from=resumed_from,
        stopped_early=stopped_early,
        final_loss=math.nan if progress.final_loss is None else progress.final_loss,
        validation_loss=progress.validation.get("validation_loss", math.nan),
        nonfinite_batches=progress.nonfinite_batches,
        curve=progress.curve,
    )


class _Run:
    """Model, optimisers and progress of one run, and the moves that `train` puts in order."""

    def __init__(
        self,
        model: nn.Module,
        objective: str,
        config: TrainConfig,
        seed: int,
        directory: Path,
        identity: dict[str, Any],
        device: torch.device,
    ) -> None:
        if device.type == "cpu":
            keep_freed_memory()
        self.autocast = build_autocast(config, device)
        _set_activation_recompute(model, config.activation_recompute)
        self.model = model.to(device)
        self.objective = OBJECTIVES[objective]
        self.config, self.seed, self.directory, self.device = config, seed, directory, device
        self.identity = json.loads(json.dumps(identity))
        self.curriculum = Curriculum(config, seed)
        self.meter = Throughput(device)
        self.progress = Progress()
        self.optimizers: list[Optimizer] = []
        self._restored: dict[str, Tensor] = {}
        self._can_train = {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def restore(self) -> int | None:
        """Take up the newest intact checkpoint and return its step; None if there is none."""
        checkpoint = latest_checkpoint(self.directory)
        if checkpoint is None:
            return None
        saved = checkpoint.state["identity"]
        keys = sorted(saved.keys() | self.identity.keys())
        changed = [key for key in keys if saved.get(key) != self.identity.get(key)]
        if changed or checkpoint.step > self.config.total_steps:
            raise CheckpointError(
                f"{checkpoint.path} (step {checkpoint.step} of now {self.config.total_steps}) is of another "
                f"run: {', '.join(changed) or 'max_steps'} changed; use another work_dir, or resume=False"
            )
        self.model.load_state_dict(checkpoint.model_state())
        self.progress = Progress(**checkpoint.state["progress"])
        self._restored = checkpoint.trainer_tensors()
        return checkpoint.step

    @contextmanager
    def open_stream(self, batches: Callable[[int], Iterator[Batch]]) -> Iterator[Iterator[Batch]]:
        """Give the batches from the coming step on; however training ends, leave nothing behind."""
        step = self.progress.step
        is_done = step == self.config.total_steps
        stream = iter(()) if is_done else batches(self.curriculum.first_batch(step))
        try:
            yield stream
        except torch.OutOfMemoryError as fault:
            step = min(self.progress.step, self.config.total_steps - 1)
            stage = self.config.stages[self.curriculum.locate(step)[0]]
            rows = max(entry.high for entry in stage.rows)
            raise TrainingError(
                f"out of memory on {self.device} at step {step}, stage {stage.name!r}, with "
                f"micro_batch_size={stage.micro_batch_size} and up to {rows} rows; lower "
                f"one of them, set training.activation_recompute=true or training.amp=bfloat16: {fault}"
            ) from fault
        finally:
            if isinstance(stream, Generator):
                stream.close()  # ends the sampling workers now, not at garbage collection
            train_only(self.model, self._can_train, ())

    def begin_step(self) -> None:
        """Set what the coming update needs: its stage's optimisers, learning rate and random stream."""
        step = self.progress.step
        stage_index, step_in_stage = self.curriculum.locate(step)
        if not self.optimizers or step_in_stage == 0:
            train_only(self.model, self._can_train, self.config.stages[stage_index].trainable_parts)
            self.optimizers = build_optimizer(self.model, self.config.optim)
            if step_in_stage > 0:
                load_optimizer_tensors(self.model, self.optimizers, self._restored)
            self._restored = {}
            self.model.train()
        set_learning_rate(self.optimizers, self.curriculum.learning_rate(step))
        # Dropout depends on the step alone, never on what was drawn before a kill.
        torch.manual_seed(derive_seed(self.seed, "step", step))

    def train_step(self, stream: Iterator[Batch]) -> None:
        """Make one update from the mean gradient over a step's micro-batches."""
        progress = self.progress
        stage = self.config.stages[self.curriculum.locate(progress.step)[0]]
        num_batches = micro_batches_per_step(stage)
        means = _Means()
        num_finite = cells = 0
        self.meter.start()
        for _ in range(num_batches):
            batch = _next_batch(stream, progress.step)
            cells += int(batch.num_columns_B.sum()) * batch.x_BRC.shape[1]
            outcome = self._accumulate(batch, num_batches)
            progress.note_batch(is_left_out=outcome is None)
            means.add(outcome or {})
            num_finite += outcome is not None
        values = means.drain()
        grad_norm = self._clip(num_batches, num_finite)
        is_finite = num_finite > 0 and math.isfinite(grad_norm)
        if is_finite:
            for optimizer in self.optimizers:
                optimizer.step()
            values["grad_norm"] = grad_norm
        self.model.zero_grad(set_to_none=True)
        self.meter.stop(datasets=stage.datasets_per_step, cells=cells)
        progress.note_update(is_left_out=not is_finite)
        progress.note_values(values)
        progress.step += 1
        progress.check(self.config.max_nonfinite_share)

    def _accumulate(self, batch: Batch, num_batches: int) -> dict[str, float] | None:
        """Add a micro-batch's share of the gradient; return its loss and metrics, None if not finite."""
        with self.autocast:
            terms = self.objective(self.model, batch.to(self.device))
        loss = float(terms.loss.detach())
        if not math.isfinite(loss):
            return None
        (terms.loss / num_batches).backward()
        return {"loss": loss} | {name: float(value) for name, value in terms.metrics.items()}

    def _clip(self, num_batches: int, num_finite: int) -> float:
        """Turn the sum into the mean over finite micro-batches, clip it, return its norm before."""
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        if 0 < num_finite < num_batches:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad.mul_(num_batches / num_finite)
        limit = math.inf if self.config.optim.clip_norm is None else self.config.optim.clip_norm
        return float(nn.utils.clip_grad_norm_(parameters, limit))

    @torch.no_grad()
    def validate(self, batches: Iterable[Batch]) -> None:
        """Measure mean loss and metrics on ``batches``; training never sees them."""
        self.model.eval()
        sums = _Means()
        with torch.random.fork_rng(devices=[]):
            # What an objective draws, such as which cells it hides, is the same at every validation.
            torch.manual_seed(derive_seed(self.seed, "validation"))
            for batch in batches:
                with self.autocast:
                    terms = self.objective(self.model, batch.to(self.device))
                sums.add({name: float(value) for name, value in {"loss": terms.loss, **terms.metrics}.items()})
        self.model.train()
        means = {f"validation_{name}": value for name, value in sums.drain().items()}
        if not means:
            raise TrainingError("validation() gave no batches, wants at least one; make the shards again")
        if not math.isfinite(means["validation_loss"]):
            raise TrainingError(
                f"validation loss is {means['validation_loss']} at step {self.progress.step}: the weights "
                "have diverged; lower the learning rate or clip_norm and run again"
            )
        self.progress.validation = means

    def drain_record(self, is_validation: bool) -> dict[str, float]:
        """Return the log record since the last one, and add it to the curve."""
        progress = self.progress
        last_step = progress.step - 1
        record = progress.drain_means() | {
            "learning_rate": self.curriculum.learning_rate(last_step),
            "stage": float(self.curriculum.locate(last_step)[0]),
            "nonfinite_batches": float(progress.nonfinite_batches),
            "nonfinite_updates": float(progress.nonfinite_updates),
        }
        if is_validation:
            record |= progress.validation
        progress.curve.append({"step": progress.step, **record})
        return record

    def save(self) -> Path:
        """Write a checkpoint of this moment and return its folder."""
        return save_checkpoint(
            self.directory,
            step=self.progress.step,
            model_state=self.model.state_dict(),
            trainer_tensors=optimizer_tensors(self.model, self.optimizers),
            state={"identity": self.identity, "progress": self.progress.to_json()},
            keep=self.config.keep_checkpoints,
        )


class _Means:
    """Means over micro-batches; a batch counts for the names that it has."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1

    def drain(self) -> dict[str, float]:
        return {name: total / self._counts[name] for name, total in self._sums.items()}


class _ForwardLog:
    """Passes records on, except for steps that were logged already before a kill."""

    def __init__(self, path: Path, log_metrics: Callable[[dict[str, float], int], None], resume: bool) -> None:
        self._path, self._log_metrics = path, log_metrics
        text = path.read_text() if resume and path.exists() else ""
        self._last = int(text) if text.isdecimal() else 0

    def __call__(self, metrics: dict[str, float], step: int) -> None:
        if step <= self._last:
            return
        self._log_metrics(metrics, step)
        self._last = step
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(str(step))
            new.replace(self._path)
        except OSError as fault:
            raise TrainingError(f"cannot write {self._path}: {fault}; free some space, run again") from fault


@contextmanager
def _fixed_environment(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Leave the caller's random streams and matmul settings as they were."""
    cuda_devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda_devices), allow_tf32(config.tf32):
        yield


def _next_batch(stream: Iterator[Batch], step: int) -> Batch:
    batch = next(stream, None)
    if batch is None:
        raise TrainingError(f"batches ran out at step {step}; write more shards (data.max_batches) or lower max_steps")
    return batch


def _set_activation_recompute(model: nn.Module, wanted: bool) -> None:
    if hasattr(model, "activation_recompute"):
        setattr(model, "activation_recompute", wanted)  # noqa: B010 - not every model declares it
    elif wanted:
        raise ConfigError(
            f"{type(model).__name__} cannot recompute activations; set training.activation_recompute=false"
        )
