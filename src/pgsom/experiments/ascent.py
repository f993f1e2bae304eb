"""Whether a gradient divided by a curvature still climbs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pgsom.checks import InputError
from pgsom.curvature import make_estimator
from pgsom.experiments.listing import Listing, Matrix
from pgsom.experiments.moments import each_trajectory, moments_from
from pgsom.updates import som
from pgsom.updates.som import SHAPES, SecondOrderMomentum


class Ascent(NamedTuple):
    """Whether dividing by a shaped curvature P still climbs."""

    estimator: str
    shape: str
    inner: float
    """gᵀP⁻¹g with the exact gradient and P of the curvature's expectation (rms: of its second moment)."""
    alignment: float
    """The cosine between P⁻¹g and g."""
    of_one_trajectory: float
    """The cosine between E[ĝ/P̂], both estimated from the same single trajectory, and g."""


def ascents(listing: Listing, name: str) -> list[Ascent]:
    """For each shape that the estimator may have, with the lemma's discounting and no baseline."""
    estimator, objective = make_estimator(name), listing.objective()
    gradients, (curvatures, spread, exact) = each_trajectory(objective, None)[0], each_trajectory(objective, estimator)
    moments = moments_from(listing, curvatures, spread, exact)
    g = listing.truth.gradient
    found = []
    for shape in SHAPES:
        try:
            rule = som(estimator, shape=shape, beta1=0.0, beta2=0.0)  # type: ignore[arg-type]  # its keys are the shapes
        except InputError:
            # A shape that this estimator may not have.
            continue
        h = np.sqrt(moments.variance + np.square(moments.expectation)) if shape == "rms" else moments.expectation
        direction = np.asarray(_preconditioned(rule, g.reshape(1, -1), h.reshape(1, -1)))[0]
        expected = listing.probability @ np.asarray(_preconditioned(rule, gradients, curvatures))
        inner = float(g.ravel() @ direction)
        found.append(Ascent(name, shape, inner, _cosine(g, direction), _cosine(g, expected)))
    return found


@jax.jit
def _preconditioned(rule: SecondOrderMomentum, gradients: Array, curvatures: Array) -> Array:
    """d [trajectory, D] of Algorithm 1 without memory."""

    def of_one(gradient: Array, curvature: Array) -> Array:
        return rule.precondition(gradient, curvature, rule.init(gradient))[0]

    return jax.vmap(of_one)(jnp.asarray(gradients), jnp.asarray(curvatures))


def _cosine(first: Matrix, second: Matrix) -> float:
    """0 where one of them is 0."""
    first, second = (vector.ravel() / max(float(np.abs(vector).max()), 1e-300) for vector in (first, second))
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > 0 else 0.0
