"""Where an environment is stepped does not change what is learned."""

import numpy as np
import pytest

from benchmarks.same_curve import STRETCHES, differences, measured


def test_the_comparison_sees_a_shift_and_does_not_invent_one() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.normal(size=(2, 16, STRETCHES))
    assert all(found.contains_zero for found in differences(first, second))
    assert not any(found.contains_zero for found in differences(first, second + 2))


@pytest.mark.slow
def test_cartpole_is_learned_alike_in_jax_and_on_the_host() -> None:
    """And not alike at half the learning rate, or the comparison would be blind."""
    found = measured()
    assert all(stretch.contains_zero for stretch in found["on the host"]), found
    assert not all(stretch.contains_zero for stretch in found["half the rate"]), found
