"""Update rules: from a LocalObjective to a direction, one a file."""

from pgsom.updates.ascent import Ascent, Followed, Lifted, followed_by, from_optax, roams
from pgsom.updates.clipping import Clipping, clip_elements, clip_norm
from pgsom.updates.conjugate_gradient import conjugate_gradient
from pgsom.updates.ggt import scale_by_ggt
from pgsom.updates.kfac import KFAC, kfac
from pgsom.updates.natural_gradient import NaturalGradient, natural_gradient
from pgsom.updates.shampoo import scale_by_shampoo
from pgsom.updates.soap import scale_by_soap
from pgsom.updates.som import SHAPES, SecondOrderMomentum, scale_by_som, som
from pgsom.updates.sophia import Sophia, sophia
from pgsom.updates.step_length import STEP_LENGTHS
from pgsom.updates.trust_region import TrustRegion, trust_region
from pgsom.updates.update_rule import Info, RoamingRule, UpdateRule

__all__ = [
    "KFAC",
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
    "Sophia",
    "TrustRegion",
    "UpdateRule",
    "clip_elements",
    "clip_norm",
    "conjugate_gradient",
    "followed_by",
    "from_optax",
    "kfac",
    "natural_gradient",
    "roams",
    "scale_by_ggt",
    "scale_by_shampoo",
    "scale_by_soap",
    "scale_by_som",
    "som",
    "sophia",
    "trust_region",
]
