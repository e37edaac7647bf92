"""Hooks for gradients; what the others do is tested where the model and its passes are."""

import pytest
import torch
from torch import nn

from edit_harness.model.hooks import probing


def test_the_gradient_of_the_zeros_is_that_of_the_output():
    """Against the chain rule by hand: y = c(b(a(x))), and the sum of y² is differentiated."""
    noise = torch.Generator().manual_seed(0)
    maps = [nn.Linear(4, 4, bias=False).double() for _ in range(3)]
    net = nn.Sequential(*maps).requires_grad_(False)
    x = torch.randn(2, 3, 4, generator=noise, dtype=torch.float64)
    with probing(maps[1:], rows=2) as seen:
        y = net(x)
        gradients = torch.autograd.grad((y**2).sum(), [probed.zeros for probed in seen])
    assert torch.equal(y, net(x))
    torch.testing.assert_close(seen[0].inputs, maps[0](x))
    torch.testing.assert_close(seen[1].inputs, maps[1](maps[0](x)))
    torch.testing.assert_close(gradients[1], 2 * y)
    torch.testing.assert_close(gradients[0], 2 * y @ maps[2].weight)
    assert all(parameter.grad is None for parameter in net.parameters())


def test_flattened_rows_are_told_apart():
    net = nn.Linear(4, 5)
    with probing([net], rows=2) as seen:
        assert net(torch.ones(6, 4)).shape == (6, 5)
    assert (seen[0].inputs.shape, seen[0].zeros.shape) == ((2, 3, 4), (2, 3, 5))


def test_the_hooks_go_whatever_happens():
    net = nn.Linear(4, 5)
    with pytest.raises(RuntimeError), probing([net], rows=1):
        net(torch.ones(2, 3))
    assert not net._forward_hooks
