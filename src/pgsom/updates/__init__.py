"""Update rules: from a LocalObjective to a direction, one a file."""

from pgsom.updates.ascent import Ascent, Followed, Lifted, followed_by, from_optax, roams
from pgsom.updates.clipping import Clipping, clip_elements, clip_norm
from pgsom.updates.som import SHAPES, STEP_LENGTHS, SecondOrderMomentum, scale_by_som, som
from pgsom.updates.update_rule import Info, RoamingRule, UpdateRule

__all__ = [
    "SHAPES",
    "STEP_LENGTHS",
    "Ascent",
    "Clipping",
    "Followed",
    "Info",
    "Lifted",
    "RoamingRule",
    "SecondOrderMomentum",
    "UpdateRule",
    "clip_elements",
    "clip_norm",
    "followed_by",
    "from_optax",
    "roams",
    "scale_by_som",
    "som",
]
