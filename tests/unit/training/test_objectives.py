import math

import torch
from torch import Tensor, nn

from priorline.batches import TabularBatch
from priorline.training.objectives import OBJECTIVES


class Fixed(nn.Module):
    """Gives stored logits and keeps what it was called with."""

    def __init__(self, logits_BMK: Tensor) -> None:
        super().__init__()
        self.logits_BMK = nn.Parameter(logits_BMK)

    def forward(self, x_BRC: Tensor, y_BN: Tensor, num_columns_B: Tensor) -> Tensor:
        self.seen = (x_BRC, y_BN, num_columns_B)
        return self.logits_BMK


def batch() -> TabularBatch:
    y_BR = torch.tensor([[0, 1, 2, 1, 0], [1, 0, 0, 0, 1]])
    return TabularBatch(x_BRC=torch.randn(2, 5, 3), y_BR=y_BR, num_columns_B=torch.tensor([3, 2]), train_size=3)


def test_only_train_labels_reach_the_model():
    model = Fixed(torch.zeros(2, 2, 4))
    OBJECTIVES["in_context_classification"](model, batch())
    x_BRC, y_BN, num_columns_B = model.seen
    assert x_BRC.shape == (2, 5, 3)
    assert y_BN.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert num_columns_B.tolist() == [3, 2]


def test_loss_is_the_mean_cross_entropy_over_test_rows():
    logits_BMK = torch.randn(2, 2, 4, generator=torch.Generator().manual_seed(0))
    terms = OBJECTIVES["in_context_classification"](Fixed(logits_BMK), batch())
    log_p = logits_BMK.log_softmax(-1)
    wanted = -(log_p[0, 0, 1] + log_p[0, 1, 0] + log_p[1, 0, 0] + log_p[1, 1, 1]) / 4
    torch.testing.assert_close(terms.loss, wanted)
    terms.loss.backward()


def test_equal_logits_cost_log_of_the_number_of_classes():
    terms = OBJECTIVES["in_context_classification"](Fixed(torch.zeros(2, 2, 4)), batch())
    assert math.isclose(terms.loss.item(), math.log(4), rel_tol=1e-6)


def test_accuracy_counts_the_likeliest_class():
    logits_BMK = torch.zeros(2, 2, 4)
    logits_BMK[0, 0, 1] = logits_BMK[0, 1, 0] = logits_BMK[1, 0, 0] = logits_BMK[1, 1, 3] = 1.0
    terms = OBJECTIVES["in_context_classification"](Fixed(logits_BMK), batch())
    assert terms.metrics["accuracy"].item() == 0.75
    assert not terms.metrics["accuracy"].requires_grad
