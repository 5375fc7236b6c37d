import math

import pytest
import torch

from priorline.inference.class_tree import build_class_tree, read_classes


def leaves(node):
    for group, child in zip(node.groups, node.children, strict=True):
        yield from leaves(child) if child is not None else group


@pytest.mark.parametrize("num_classes", [2, 10, 11, 12, 26, 99, 100, 101, 137, 1000, 1001])
def test_tree_reaches_every_class_once_with_the_least_depth(num_classes):
    tree = build_class_tree(range(num_classes), 10)
    assert sorted(leaves(tree)) == list(range(num_classes))
    assert tree.depth == math.ceil(round(math.log(num_classes, 10), 9))


def test_groups_are_balanced():
    sizes = [len(group) for group in build_class_tree(range(137), 10).groups]
    assert len(sizes) == 10
    assert max(sizes) - min(sizes) <= 1


def nearest_row(rows_NE, y_N):
    """A stand-in learner that is sure of the class of the train row with the same embedding."""
    assert 2 <= len(y_N.unique()) <= 10
    assert int(y_N.max()) == len(y_N.unique()) - 1

    def answer(query_ME):
        codes_M = y_N[torch.cdist(query_ME, rows_NE).argmin(dim=-1)]
        return 9.0 * torch.nn.functional.one_hot(codes_M, 10).float()

    return answer


@pytest.mark.parametrize("num_classes", [2, 10, 12, 26, 137])
def test_probabilities_sum_to_one_and_find_the_class(num_classes):
    generator = torch.Generator().manual_seed(0)
    train_NE = torch.randn(3 * num_classes, 5, generator=generator)
    y_N = torch.arange(num_classes).repeat(3)
    chosen_M = torch.randperm(len(y_N), generator=generator)[:40]
    log_probs_MK = read_classes(nearest_row, train_NE, y_N, num_classes, 10, 0.9)(train_NE[chosen_M])
    torch.testing.assert_close(log_probs_MK.exp().sum(-1), torch.ones(len(chosen_M), dtype=torch.float64))
    assert torch.equal(log_probs_MK.argmax(-1), y_N[chosen_M])
