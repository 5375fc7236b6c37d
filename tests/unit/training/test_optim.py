import pytest
import torch
from torch import nn
from toy_training import new_model

from priorline.errors import ConfigError
from priorline.training.config import OptimConfig
from priorline.training.optim import (
    Muon,
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
    orthogonalize,
    set_learning_rate,
    train_only,
)

CAN_TRAIN = {name for name, parameter in new_model().named_parameters() if parameter.requires_grad}


def owned(model: nn.Module, optimizers: list) -> dict[str, tuple[str, float]]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        names[parameter]: (type(optimizer).__name__, group["weight_decay"])
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def backward(model: nn.Module) -> None:
    x_BRC, y_BN = torch.randn(2, 8, 3), torch.randint(0, 2, (2, 4))
    model(x_BRC, y_BN).square().sum().backward()


def test_adamw_owns_every_trainable_parameter_and_decays_matrices_only():
    model = new_model()
    optimizers = build_optimizer(model, OptimConfig(weight_decay=0.1))
    table = owned(model, optimizers)
    assert set(table) == CAN_TRAIN
    for name, (kind, decay) in table.items():
        assert (kind, decay) == ("AdamW", 0.1 if name.endswith("weight") else 0.0)


def test_muon_owns_hidden_matrices_and_adamw_the_rest():
    model = new_model()
    table = owned(model, build_optimizer(model, OptimConfig(name="muon")))
    assert set(table) == CAN_TRAIN
    by_muon = {name for name, (kind, _) in table.items() if kind == "Muon"}
    assert by_muon == {"encoder.2.weight", "head.1.weight"}, "not the first layer, the last, nor biases"


def test_embeddings_and_learned_tokens_are_not_hidden_matrices():
    model = nn.Module()
    model.words = nn.Embedding(32, 32)
    model.tokens = nn.Parameter(torch.zeros(32, 32))
    model.mix = nn.Linear(32, 32)
    table = owned(model, build_optimizer(model, OptimConfig(name="muon")))
    assert {name for name, (kind, _) in table.items() if kind == "Muon"} == {"mix.weight"}


def test_parts_restrict_the_optimizer():
    model = new_model()
    table = owned(model, build_optimizer(model, OptimConfig(), ("head",)))
    assert set(table) == {name for name in CAN_TRAIN if name.startswith("head.")}


def test_train_only_freezes_the_rest_and_never_frees_a_constant():
    model = new_model()
    train_only(model, CAN_TRAIN, ("head",))
    training = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert training == {name for name in CAN_TRAIN if name.startswith("head.")}
    train_only(model, CAN_TRAIN, ())
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == CAN_TRAIN


def test_unknown_part_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="'haed' matches no trainable parameter; did you mean 'head'"):
        train_only(new_model(), CAN_TRAIN, ("haed",))


def test_prefix_must_end_at_a_dot():
    with pytest.raises(ConfigError, match="'hea'"):
        train_only(new_model(), CAN_TRAIN, ("hea",))


def test_learning_rate_reaches_every_group_and_muon_scales_it():
    optimizers = build_optimizer(new_model(), OptimConfig(name="muon", muon_learning_rate_scale=3.0))
    set_learning_rate(optimizers, 0.5)
    rates = {type(o).__name__: {group["lr"] for group in o.param_groups} for o in optimizers}
    assert rates == {"AdamW": {0.5}, "Muon": {1.5}}


@pytest.mark.parametrize("shape", [(24, 24), (48, 16), (16, 48)])
def test_orthogonalize_keeps_directions_and_levels_singular_values(shape: tuple[int, int]):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    result = orthogonalize(matrix)
    u, values, vh = torch.linalg.svd(matrix, full_matrices=False)
    levelled = torch.diagonal(u.T @ result @ vh.T)
    # The quintic does not converge to 1 but into a band around it; small values may lag behind.
    large = values > 0.1 * values.max()
    assert levelled[large].min() > 0.5
    assert levelled.max() < 1.3
    assert orthogonalize(torch.zeros(shape)).abs().max() == 0


def test_muon_follows_torch_within_its_bfloat16():
    ours, theirs = (nn.Parameter(torch.eye(32, 16)) for _ in range(2))
    settings = {"momentum": 0.9, "weight_decay": 0.1}
    our_muon = Muon([ours], **settings)
    their_muon = torch.optim.Muon([theirs], lr=0.02, adjust_lr_fn="match_rms_adamw", **settings)
    set_learning_rate([our_muon], 0.02)
    rng = torch.Generator().manual_seed(0)
    for _ in range(5):
        ours.grad = torch.randn(32, 16, generator=rng)
        theirs.grad = ours.grad.clone()
        our_muon.step()
        their_muon.step()
    # An update moves an entry by about 0.2 * lr = 4e-3; bfloat16 holds 8 bits, five steps long.
    torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=0)
    assert not torch.equal(ours, torch.eye(32, 16))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_state_as_tensors_round_trips_to_equal_updates(name: str):
    config = OptimConfig(name=name)
    first, second = new_model(), new_model()
    first_optimizers = build_optimizer(first, config)
    set_learning_rate(first_optimizers, 0.01)
    for _ in range(2):
        backward(first)
        for optimizer in first_optimizers:
            optimizer.step()
        first.zero_grad()
    second.load_state_dict(first.state_dict())
    second_optimizers = build_optimizer(second, config)
    tensors = {key: value.clone() for key, value in optimizer_tensors(first, first_optimizers).items()}
    load_optimizer_tensors(second, second_optimizers, tensors)
    set_learning_rate(second_optimizers, 0.01)
    for model, optimizers in ((first, first_optimizers), (second, second_optimizers)):
        torch.manual_seed(0)
        backward(model)
        for optimizer in optimizers:
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
