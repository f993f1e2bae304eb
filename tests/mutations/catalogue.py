"""The sabotages: where, what the line becomes, and the tests that must fail for it."""

from typing import NamedTuple

EXPECTATIONS = "tests/exact/test_expectations.py"
MOMENTUM = "tests/exact/test_second_order_momentum.py"
UNBIASED = f"{EXPECTATIONS} -k unbiased_for_a_table"


class Mutation(NamedTuple):
    """`before`, which stands exactly once in `file`, becomes `after`; `tests` are pytest's arguments."""

    what: str
    file: str
    before: str
    after: str
    tests: str


MUTATIONS = (
    Mutation(
        "off by one where returns cross a chunk of time",
        "returns.py",
        "jnp.arange(chunk, 0, -1)",
        "jnp.arange(chunk - 1, -1, -1)",
        "tests/exact/test_rollouts.py -k plain_loop",
    ),
    Mutation(
        "the lemma's γ^t forgotten",
        "returns.py",
        "return jnp.asarray(discount) ** jnp.arange(steps)",
        "return jnp.ones(steps)",
        UNBIASED,
    ),
    Mutation(
        "baseline added instead of subtracted",
        "objective.py",
        "(returns - baseline)",
        "(returns + baseline)",
        "tests/exact/test_rollouts.py -k less_the_baseline",
    ),
    Mutation(
        "weights, and with them the baseline, left out of one term of Lemma 1",
        "curvature/lemma.py",
        "(objective.chunk, objective.rollout.mask, objective.weight, objective.score_weight)",
        "(objective.chunk, objective.rollout.mask, objective.weight, objective.step_weight)",
        UNBIASED,
    ),
    Mutation(
        "the causal cross term counted once, not twice",
        "policies/derivatives.py",
        "zi * (zi + 2 * ci)",
        "zi * (zi + ci)",
        UNBIASED,
    ),
    Mutation(
        "bias correction one update late",
        "updates/som.py",
        "count, renewed = state.updates + 1,",
        "count, renewed = state.updates + 2,",
        f"{MOMENTUM} -k worked_out_by_hand",
    ),
    Mutation(
        "the printed sign of the curvature lost",
        "updates/som.py",
        "jnp.where(h < 0, -magnitude, magnitude)",
        "magnitude",
        f"{MOMENTUM} -k as_printed",
    ),
    Mutation(
        "stages step backwards",
        "schemes.py",
        "lambda leaf, *moves: leaf + rate",
        "lambda leaf, *moves: leaf - rate",
        "tests/exact/test_schemes.py -k taylor",
    ),
    Mutation(
        "the time limit taken for a termination",
        "rollout.py",
        "play.truncated | (alive & step.truncated)",
        "play.truncated | (alive & step.terminated)",
        "tests/exact/test_rollouts.py -k goal_or_at_the_horizon",
    ),
    Mutation(
        "steps of later stages not counted",
        "training.py",
        "for rollout in stages.played())",
        "for rollout in stages.played()[:1])",
        "tests/contracts/test_training.py -k every_stage_are_counted",
    ),
    Mutation(
        "the entropy bonus a penalty on the states' own entropy",
        "policies/derivatives.py",
        "w * head.log_prob(u, action) + v * head.entropy(u)",
        "w * head.log_prob(u, action) - v * head.entropy(u)",
        f"{EXPECTATIONS} -k entropy_bonus",
    ),
    Mutation(
        "the two-action Fisher factor without its root",
        "policies/distributions.py",
        "jnp.sqrt(p[0] * p[1]) * jnp",
        "(p[0] * p[1]) * jnp",
        "tests/exact/test_diagonals.py -k fisher",
    ),
    Mutation(
        "norm clipping the wrong way round",
        "updates/clipping.py",
        "lambda x: jnp.where(length > limit, x * factor, x)",
        "lambda x: jnp.where(length > limit, x, x * factor)",
        f"{MOMENTUM} -k clipped_by_two",
    ),
    Mutation(
        "an update that is not finite goes through",
        "training.py",
        "partial(jnp.where, fine)",
        "partial(jnp.where, fine | True)",
        "tests/contracts/test_training.py -k left_out_and_counted",
    ),
)
