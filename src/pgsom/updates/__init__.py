"""Update rules: from a LocalObjective to a direction, one a file."""

from pgsom.updates.ascent import Ascent, Followed, Lifted, followed_by, from_optax, roams
from pgsom.updates.clipping import Clipping, clip_elements, clip_norm
from pgsom.updates.conjugate_gradient import conjugate_gradient
from pgsom.updates.natural_gradient import NaturalGradient, natural_gradient
from pgsom.updates.som import SHAPES, SecondOrderMomentum, scale_by_som, som
from pgsom.updates.step_length import STEP_LENGTHS
from pgsom.updates.trust_region import TrustRegion, trust_region
from pgsom.updates.update_rule import Info, RoamingRule, UpdateRule

__all__ = [
    "SHAPES",
    "STEP_LENGTHS",
    "Ascent",
    "Clipping",
    "Followed",
    "Info",
    "Lifted",
    "NaturalGradient",
    "RoamingRule",
    "SecondOrderMomentum",
    "TrustRegion",
    "UpdateRule",
    "clip_elements",
    "clip_norm",
    "conjugate_gradient",
    "followed_by",
    "from_optax",
    "natural_gradient",
    "roams",
    "scale_by_som",
    "som",
    "trust_region",
]
