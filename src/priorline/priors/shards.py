"""Prior data on disk: safetensors shards and a manifest that names what they are.

A folder holds ``train-00000.safetensors`` ..., ``validation-00000.safetensors`` and, written last,
``manifest.json``. Every file appears whole or not at all, so a killed run leaves shards that the
next one keeps.
"""

import hashlib
import json
import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from joblib import Parallel, delayed
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from priorline.batches import Batch, BatchSpec, TabularBatch
from priorline.config_io import Config, config_hash
from priorline.errors import ShardError
from priorline.priors.base import Prior

Split = Literal["train", "validation"]
MANIFEST = "manifest.json"
IDENTITY = "identity.json"
"""Stands while a folder is unfinished."""


class ShardEntry(Config):
    """One shard file."""

    file: str
    """Name inside the folder."""
    split: Split
    """What the batches are for; validation batches never train."""
    sha256: str
    """Of the file's bytes."""
    size_bytes: int
    """Of the file."""
    first_batch: int
    """Place of its first batch in the split's stream."""
    num_batches: int
    """Batches in the file."""
    num_datasets: int
    """Datasets in the file."""


class Manifest(Config):
    """What a folder of shards is."""

    format: Literal["priorline-shards"] = "priorline-shards"
    """Names the layout."""
    format_version: Literal[1] = 1
    """Version of the layout."""
    identity: dict[str, Any]
    """All that fixes the bytes: prior, curriculum, seed, source."""
    shards: tuple[ShardEntry, ...]
    """Training shards in order, then validation shards."""

    @property
    def data_hash(self) -> str:
        """16 hex digits of identity and bytes of all shards."""
        return config_hash(self.identity, [shard.sha256 for shard in self.shards])

    @property
    def num_batches(self) -> int:
        """Training batches in all."""
        return sum(shard.num_batches for shard in self.shards if shard.split == "train")

    @property
    def num_datasets(self) -> int:
        """Training datasets in all."""
        return sum(shard.num_datasets for shard in self.shards if shard.split == "train")


@dataclass(frozen=True, slots=True)
class _Job:
    """One shard to be made."""

    name: str
    split: Split
    first: int
    """Place of its first batch in the split's stream."""
    specs: tuple[BatchSpec, ...]


def write_shards(
    prior: Prior,
    specs: Sequence[BatchSpec],
    validation_specs: Sequence[BatchSpec],
    directory: Path,
    *,
    batches_per_shard: int,
    identity: dict[str, Any],
    num_workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Write the batches of ``specs`` and ``validation_specs`` into ``directory``.

    Intact shards of the same identity are kept; missing and damaged ones are made, to the same bytes.

    Parameters
    ----------
    identity : dict
        All that fixes the bytes, JSON-ready; a folder of another identity is refused.
    num_workers : int
        Processes; any number gives the same bytes. 0 and 1 work in the caller's.
    on_progress : callable, optional
        Called with (shards done, shards in all).

    Raises
    ------
    ShardError
        If the folder holds another identity's shards, or the prior cannot sample a batch.

    Warns
    -----
    UserWarning
        Names each damaged shard that is made anew.
    """
    identity = json.loads(json.dumps(identity))
    jobs = [
        *_plan(specs, "train", batches_per_shard),
        *_plan(validation_specs, "validation", batches_per_shard),
    ]
    known = _known_entries(directory, identity)
    entries = {job.name: known[job.name] for job in jobs if _is_done(directory, job, known.get(job.name))}
    missing = [job for job in jobs if job.name not in entries]
    if not missing and (directory / MANIFEST).exists() and len(known) == len(jobs):
        return read_manifest(directory)
    _open_folder(directory, identity, entries.values())
    # Results come in the order of the jobs, whichever worker made them.
    workers = Parallel(n_jobs=max(1, num_workers), return_as="generator")
    for entry in workers(delayed(_write_shard)(prior, directory, job) for job in missing):
        entries[entry.file] = entry
        if on_progress is not None:
            on_progress(len(entries), len(jobs))
    manifest = Manifest(identity=identity, shards=tuple(entries[job.name] for job in jobs))
    _close_folder(directory, manifest)
    return manifest


def read_manifest(directory: Path) -> Manifest:
    """Return the manifest of a finished folder; raises `ShardError` if there is none."""
    path = directory / MANIFEST
    if not path.exists():
        raise ShardError(f"{directory} holds no finished shards; run `priorline priors generate` first")
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as fault:
        raise ShardError(f"{path} is damaged ({fault}); remove the folder and generate again") from fault


def verify_shards(directory: Path) -> list[str]:
    """Return the names of shards that are missing or do not match their checksum."""
    return [entry.file for entry in read_manifest(directory).shards if not _is_intact(directory, entry, warn=False)]


def read_batches(directory: Path, *, split: Split = "train", start: int = 0) -> Iterator[Batch]:
    """Yield the batches of ``split`` from place ``start`` on; each shard's checksum is tried once.

    Raises
    ------
    ShardError
        If a shard is missing or damaged; names the file and the remedy.
    """
    for entry in read_manifest(directory).shards:
        if entry.split != split or entry.first_batch + entry.num_batches <= start:
            continue
        if not _is_intact(directory, entry, warn=False):
            raise ShardError(
                f"{directory / entry.file} is missing or does not match its checksum; run `priorline priors "
                "generate` again: damaged shards are made anew, to the same bytes"
            )
        with safe_open(directory / entry.file, framework="pt") as shard:
            train_sizes = json.loads(shard.metadata()["train_sizes"])
            names = sorted(shard.keys())
            for place in range(max(0, start - entry.first_batch), entry.num_batches):
                prefix = f"{place:05d}."
                own = names[bisect_left(names, prefix) : bisect_left(names, f"{place + 1:05d}.")]
                tensors = {name.removeprefix(prefix): shard.get_tensor(name) for name in own}
                yield TabularBatch.from_tensors(tensors, train_sizes[place])


def _plan(specs: Sequence[BatchSpec], split: Split, batches_per_shard: int) -> Iterator[_Job]:
    for number, first in enumerate(range(0, len(specs), batches_per_shard)):
        part = tuple(specs[place] for place in range(first, min(first + batches_per_shard, len(specs))))
        yield _Job(name=f"{split}-{number:05d}.safetensors", split=split, first=first, specs=part)


def _write_shard(prior: Prior, directory: Path, job: _Job) -> ShardEntry:
    tensors: dict[str, Tensor] = {}
    train_sizes = []
    for place, spec in enumerate(job.specs):
        batch = prior.sample(spec)
        tensors |= {f"{place:05d}.{key}": value for key, value in batch.tensors().items()}
        train_sizes.append(batch.train_size)
    content = save(tensors, metadata={"train_sizes": json.dumps(train_sizes)})
    _write_bytes(directory / job.name, content)
    entry = ShardEntry(
        file=job.name,
        split=job.split,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        first_batch=job.first,
        num_batches=len(job.specs),
        num_datasets=sum(spec.num_datasets for spec in job.specs),
    )
    _write_record(directory, entry)
    return entry


def _write_record(directory: Path, entry: ShardEntry) -> None:
    """Until the manifest stands, this tells the next run that the shard is whole."""
    _write_bytes(directory / f"{entry.file}.entry.json", entry.model_dump_json().encode())


def _open_folder(directory: Path, identity: dict[str, Any], kept: Iterable[ShardEntry]) -> None:
    """Mark the folder as unfinished, in an order that lets a killed run be taken up at any point."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_bytes(directory / IDENTITY, json.dumps(identity, indent=2).encode())
    for entry in kept:
        _write_record(directory, entry)
    (directory / MANIFEST).unlink(missing_ok=True)


def _close_folder(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, then remove what is not part of a finished folder."""
    _write_bytes(directory / MANIFEST, manifest.model_dump_json(indent=2).encode())
    wanted = {entry.file for entry in manifest.shards}
    unwanted = [path for path in directory.glob("*.safetensors") if path.name not in wanted]
    for path in [*unwanted, *directory.glob("*.entry.json"), *directory.glob(".*.tmp"), directory / IDENTITY]:
        path.unlink(missing_ok=True)


def _known_entries(directory: Path, identity: dict[str, Any]) -> dict[str, ShardEntry]:
    """Return the shards that a finished or killed run recorded, by file name."""
    if (directory / MANIFEST).exists():
        manifest = read_manifest(directory)
        found, recorded = manifest.identity, list(manifest.shards)
    elif (directory / IDENTITY).exists():
        try:
            found = json.loads((directory / IDENTITY).read_bytes())
            records = [path.read_bytes() for path in sorted(directory.glob("*.entry.json"))]
            recorded = [ShardEntry.model_validate_json(record) for record in records]
        except ValueError as fault:  # of JSON or of its content
            raise ShardError(f"{directory} is damaged ({fault}); remove the folder and generate again") from fault
    else:
        return {}
    if found != identity:
        changed = sorted(key for key in found.keys() | identity.keys() if found.get(key) != identity.get(key))
        raise ShardError(
            f"{directory} holds shards of another configuration ({', '.join(changed)} changed); "
            "name another folder, or remove this one"
        )
    return {entry.file: entry for entry in recorded}


def _is_done(directory: Path, job: _Job, entry: ShardEntry | None) -> bool:
    """Return whether the shard on disk is whole and holds the batches that ``job`` asks for."""
    if entry is None or (entry.first_batch, entry.num_batches) != (job.first, len(job.specs)):
        return False
    return _is_intact(directory, entry, warn=True)


def _is_intact(directory: Path, entry: ShardEntry, *, warn: bool) -> bool:
    path = directory / entry.file
    if not path.exists():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        for block in iter(partial(handle.read, 1 << 20), b""):
            digest.update(block)
    intact = digest.hexdigest() == entry.sha256
    if warn and not intact:
        warnings.warn(f"{path} does not match its checksum and is made anew", stacklevel=5)
    return intact


def _write_bytes(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


__all__ = [
    "Manifest",
    "ShardEntry",
    "read_batches",
    "read_manifest",
    "verify_shards",
    "write_shards",
]
