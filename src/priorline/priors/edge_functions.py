"""What a cause does to its effect: random functions between node states, and how several join.

Shapes: R rows, W channels of a node's state. States are near zero mean and unit deviation.
Source: LimiX (arXiv 2509.03505): MLP, convolution and tree edges; LimiX-2 adds linear, periodic and piecewise.
"""

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray, np.random.Generator], np.ndarray]

_NONLINEARITIES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.tanh,
    lambda x: np.maximum(x, 0.0),
    np.abs,
    lambda x: np.exp(-np.square(x)),
)
_MOST_HIDDEN, _MOST_DEPTH, _MOST_KNOTS = 16, 4, 8
_FREQUENCIES = (0.3, 2.0)
_TINY = 1e-6


def linear(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a random linear map of the channels."""
    return x_RW @ _matrix(x_RW.shape[1], x_RW.shape[1], generator)


def mlp(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a random network of one hidden layer."""
    width, hidden = x_RW.shape[1], int(generator.integers(4, _MOST_HIDDEN + 1))
    bias = generator.standard_normal(hidden, dtype=np.float32)
    activation = _NONLINEARITIES[int(generator.integers(len(_NONLINEARITIES)))]
    inner = activation(2.0 * (x_RW @ _matrix(width, hidden, generator)) + bias)
    return inner @ _matrix(hidden, width, generator)


def convolution(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the channels through a random kernel over their neighbours, closed to a ring, and a nonlinearity."""
    kernel = generator.standard_normal(3, dtype=np.float32)
    mixed = sum(weight * np.roll(x_RW, shift, axis=1) for weight, shift in zip(kernel, (-1, 0, 1), strict=True))
    return _NONLINEARITIES[int(generator.integers(len(_NONLINEARITIES)))](np.asarray(mixed))


def tree(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the leaves of a random tree whose splits of one depth are alike."""
    depth = int(generator.integers(1, _MOST_DEPTH + 1))
    channels = generator.integers(x_RW.shape[1], size=depth)
    cuts = x_RW[generator.integers(len(x_RW), size=depth), channels]
    leaf_R = ((x_RW[:, channels] > cuts) * (1 << np.arange(depth))).sum(axis=1)
    leaves = generator.standard_normal((1 << depth, x_RW.shape[1]), dtype=np.float32)
    return leaves[leaf_R]


def periodic(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return sines of random mixtures of the channels."""
    width = x_RW.shape[1]
    frequency = np.float32(np.pi * generator.uniform(*_FREQUENCIES))
    phase_W = np.float32(2 * np.pi) * generator.random(width, dtype=np.float32)
    waves: np.ndarray = np.sin(frequency * (x_RW @ _matrix(width, width, generator)) + phase_W)
    return waves


def piecewise(x_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return each channel through a random broken line."""
    num_knots = int(generator.integers(3, _MOST_KNOTS + 1))
    out_RW = np.empty_like(x_RW)
    for channel in range(x_RW.shape[1]):
        knots = np.sort(x_RW[generator.integers(len(x_RW), size=num_knots), channel])
        values = generator.standard_normal(num_knots)
        out_RW[:, channel] = np.interp(x_RW[:, channel], knots, values)
    return out_RW


EDGE_FUNCTIONS: dict[str, Function] = {
    "linear": linear,
    "mlp": mlp,
    "convolution": convolution,
    "tree": tree,
    "periodic": periodic,
    "piecewise": piecewise,
}


def join(parts: list[np.ndarray], how: str, generator: np.random.Generator) -> np.ndarray:
    """Return one state (R, W) from what each cause contributes; ``how`` is a key of `AGGREGATORS`."""
    return AGGREGATORS[how](np.stack(parts), generator)


def _weighted(parts_PRW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    weights = generator.standard_normal(len(parts_PRW), dtype=np.float32)
    return np.tensordot(weights, parts_PRW, axes=1)


def _product(parts_PRW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    shifts = generator.uniform(0.0, 1.5, (len(parts_PRW), 1, 1)).astype(np.float32)
    product: np.ndarray = (np.clip(parts_PRW, -3, 3) + shifts).prod(axis=0)
    return product


def _neural(parts_PRW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return mlp(np.concatenate(list(parts_PRW), axis=1), generator)[:, : parts_PRW.shape[2]]


AGGREGATORS: dict[str, Function] = {
    "mean": lambda parts_PRW, generator: parts_PRW.mean(axis=0),
    "weighted": _weighted,
    "product": _product,
    "neural": _neural,
    "maximum": lambda parts_PRW, generator: parts_PRW.max(axis=0),
}


def draw_root(num_rows: int, width: int, generator: np.random.Generator) -> np.ndarray:
    """Return a state (R, W) without causes: normal, uniform, heavy-tailed, of clusters or of categories."""
    shape = (num_rows, width)
    kind = int(generator.integers(5))
    if kind == 0:
        return generator.standard_normal(shape, dtype=np.float32)
    if kind == 1:
        return generator.uniform(-1.7, 1.7, shape).astype(np.float32)
    if kind == 2:
        return np.clip(generator.standard_t(3, shape), -8, 8).astype(np.float32)
    count = int(generator.integers(2, 6))
    shares = generator.dirichlet(np.full(count, 2.0))
    centers = 2.0 * generator.standard_normal((count, width), dtype=np.float32)
    state_RW = centers[generator.choice(count, num_rows, p=shares)]
    if kind == 3:
        state_RW = state_RW + 0.5 * generator.standard_normal(shape, dtype=np.float32)
    return state_RW


def standard(x_RW: np.ndarray) -> np.ndarray:
    """Return channels of zero mean and unit deviation, cut at 8; a constant channel becomes zero."""
    centered = x_RW - x_RW.mean(axis=0)
    scaled = centered / np.maximum(centered.std(axis=0), _TINY)
    return np.clip(scaled, -8.0, 8.0).astype(np.float32)


def _matrix(inputs: int, outputs: int, generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((inputs, outputs), dtype=np.float32) / np.float32(np.sqrt(inputs))
