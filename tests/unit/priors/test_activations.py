"""Random functions: 19 families, one a table, and a grid that stays within its error bound."""

import numpy as np
import pytest
import torch

from priorline.config_io import build
from priorline.errors import ConfigError
from priorline.priors.activations import (
    GRID_TOLERANCE,
    SIMPLE,
    ActivationConfig,
    RandomFunctions,
    activate,
    standardize,
)

CONFIG = ActivationConfig()


def only(entry: int) -> np.ndarray:
    return (np.arange(CONFIG.num_entries) >= entry).astype(float)


def exact(functions: RandomFunctions, x_BN: torch.Tensor) -> torch.Tensor:
    """f without a grid, in float64."""
    angle = x_BN.double()[:, :, None] * functions.frequency_BF.double()[:, None]
    return (torch.sin(angle + functions.phase_BF.double()[:, None]) * functions.amplitude_BF.double()[:, None]).sum(-1)


def test_nineteen_families_and_the_random_function_ten_times():
    assert len(SIMPLE) + 1 == 19
    assert (len(CONFIG.entries), CONFIG.num_entries) == (28, 56)
    assert set(ActivationConfig(random_function_weight=0).entries) == set(SIMPLE)


@pytest.mark.parametrize("entry", range(0, CONFIG.num_entries, 3))
def test_every_entry_keeps_the_shape(entry):
    x_BUR = torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(0))
    out = activate(x_BUR, only(entry), CONFIG, np.random.default_rng(entry))
    assert out.shape == x_BUR.shape
    assert not torch.equal(out[0], out[1])


def test_units_of_a_table_share_one_function_and_tables_do_not():
    x_BUR = torch.linspace(-1, 1, 40).expand(2, 3, 40).contiguous()
    out = activate(x_BUR, only(27), CONFIG, np.random.default_rng(0))
    assert torch.equal(out[0, 0], out[0, 2])
    assert (out[0] - out[1]).abs().max() > 0.1


@pytest.mark.parametrize("rows", [31, 1000])
def test_constant_units_stay_constant_to_the_bit(rows):
    x_BUR = torch.tensor([0.1, -3.7, 1e-9, 1e9])[None, :, None].expand(1, 4, rows).contiguous()
    out = standardize(x_BUR)
    assert torch.equal(out.amax(-1), out.amin(-1))


@pytest.mark.parametrize("decay", [0.7, 1.5, 3.0])
def test_interpolated_random_functions_stay_within_their_bound(decay):
    config = ActivationConfig(decay_exponent=(decay, decay))
    functions = RandomFunctions(5, config, np.random.default_rng(0))
    x_BUR = standardize(torch.randn(5, 6, 700, generator=torch.Generator().manual_seed(0)))
    wanted = exact(functions, x_BUR.flatten(1))
    error = (functions(x_BUR).flatten(1) - wanted).abs()
    curvature = (functions.amplitude_BF.abs() * functions.frequency_BF.square()).sum(1)
    bound = functions.largest_step_B.square() / 8 * curvature
    # Float32 angles of up to 256 * 5 radians round by 1e-4.
    assert (error.amax(1) <= bound + 1e-3).all()
    deviation = functions.amplitude_BF.norm(dim=1) / 2**0.5
    assert (error.square().mean(1).sqrt() < GRID_TOLERANCE * deviation + 1e-4).all()


def test_a_table_that_is_not_finite_spoils_no_other():
    functions = RandomFunctions(3, CONFIG, np.random.default_rng(1))
    x_BUR = torch.randn(3, 2, 20, generator=torch.Generator().manual_seed(0))
    good = functions(x_BUR)
    x_BUR[1, 0, 3] = torch.inf
    spoilt = functions(x_BUR)
    assert spoilt[1].isnan().all()
    torch.testing.assert_close(spoilt[[0, 2]], good[[0, 2]], rtol=0, atol=0.02)


def test_intervals_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match="above"):
        build(ActivationConfig, {"decay_exponent": [3.0, 0.7]})
