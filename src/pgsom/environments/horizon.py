"""How long the episodes of an exact environment are."""

import math

from pgsom.checks import check_count, wrong

_NEGLIGIBLE_DISCOUNT = 1e-8


def checked_horizon(horizon: int | None, sampling_horizon: int | None, discount: float) -> int:
    """The number of steps after which sampled episodes are truncated.

    That is `horizon`, or for an infinite one (None) `sampling_horizon`, by default the first H with γ^H < 1e-8.
    """
    if horizon is not None:
        if sampling_horizon is not None:
            raise wrong("sampling_horizon", sampling_horizon, "accepted only with horizon=None")
        return check_count("horizon", horizon)
    if discount == 1:
        raise wrong("horizon", horizon, "accepted with discount < 1 only; give a whole number >= 1")
    if sampling_horizon is not None:
        return check_count("sampling_horizon", sampling_horizon)
    if discount == 0:
        return 1
    return math.floor(math.log(_NEGLIGIBLE_DISCOUNT) / math.log(discount)) + 1
