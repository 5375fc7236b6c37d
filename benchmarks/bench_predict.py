"""CPU seconds and memory of `predict_proba` on random weights: our classifier, or the authors' package's.

With ``--cache`` the first figure is fit and first call together, ``again`` a second call on the same context.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measuring import emit, peak_mib
from benchmarks.peers import package_model, package_options

from priorline.checkpoints import save_weights
from priorline.models.tabicl.config import PRESETS
from priorline.models.tabicl.model import TabICL


def ours(folder: Path, arguments: argparse.Namespace) -> Any:
    """Return our classifier over random weights."""
    from priorline import TabICLClassifier

    config = PRESETS[arguments.preset]().model_copy(update={"zero_init": False})
    save_weights(
        folder / "weights", TabICL(config), kind="tabicl", model_config=config.model_dump(mode="json"), metadata={}
    )
    return TabICLClassifier(
        folder / "weights",
        num_members=arguments.members,
        normalizations=("none", "power")[: arguments.members],
        cache=None if arguments.cache == "none" else arguments.cache,
        cache_mb=16_384,
        memory_budget_mb=arguments.budget,
    )


def package(folder: Path, arguments: argparse.Namespace) -> Any:
    """Return the package's classifier over random weights."""
    from tabicl import TabICLClassifier

    config = PRESETS[arguments.preset]()
    state = package_model(config).state_dict()
    torch.save({"config": package_options(config), "state_dict": state}, folder / "random.ckpt")
    del state
    cache = False if arguments.cache == "none" else arguments.cache
    return TabICLClassifier(
        model_path=folder / "random.ckpt", n_estimators=arguments.members, device="cpu", n_jobs=1, kv_cache=cache
    )


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("whose", choices=["ours", "package"])
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--query", type=int, default=500)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--cache", choices=["none", "repr", "kv"], default="none")
    parser.add_argument("--budget", type=float, default=None, help="memory_budget_mb of ours")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((arguments.train + arguments.query, arguments.columns))
    y = generator.integers(0, arguments.classes, arguments.train)
    with tempfile.TemporaryDirectory() as folder:
        classifier = {"ours": ours, "package": package}[arguments.whose](Path(folder), arguments)
        base = peak_mib()
        start = time.process_time()
        classifier.fit(x[: arguments.train], y)
        fit_s = time.process_time() - start
        seconds = []
        for _ in range(arguments.repeat + (arguments.cache != "none")):
            start = time.process_time()
            proba = classifier.predict_proba(x[arguments.train :])
            seconds.append(time.process_time() - start)
    assert np.isfinite(proba).all()
    figures = {"cpu_s": float(np.median(seconds)), "peak_over_base_mib": peak_mib() - base}
    if arguments.cache != "none":
        # The package fills its cache in fit, ours in the first prediction.
        figures |= {"cpu_s": fit_s + seconds[0], "again_cpu_s": float(np.median(seconds[1:]))}
    emit(**figures)


if __name__ == "__main__":
    main()
