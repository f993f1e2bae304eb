"""The sabotages: where, what the line becomes, and the tests that must fail for it."""

from typing import NamedTuple

EXPECTATIONS = "tests/exact/test_expectations.py"
NATURAL = "tests/exact/test_natural_gradient.py"
MOMENTUM = "tests/exact/test_second_order_momentum.py"
NEWTON = "tests/exact/test_newton.py"
RECURSIVE = "tests/exact/test_recursive_momentum.py"
NUMBERS = "tests/faults/test_numbers_that_go_wrong.py"
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
        "return jnp.asarray(discount) ** time",
        "return jnp.ones(time.shape)",
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
        "Loaded DiCE's decay forgotten",
        "policies/derivatives.py",
        "c = c if decay == 1 else jax.tree.map(lambda ci: decay * ci, c)",
        "c = c",
        "tests/exact/test_estimators.py -k formula_on_each_trajectory",
    ),
    Mutation(
        "HesScale's recursion without the activation's bend",
        "policies/layers.py",
        "h = jnp.square(first) * (h @ jnp.square(weight).T) + second * (gradient_signals[index + 1] @ weight.T)",
        "h = jnp.square(first) * (h @ jnp.square(weight).T)",
        "tests/exact/test_estimators.py -k becker",
    ),
    Mutation(
        "a root of the second moments for each array, not for each axis",
        "updates/shampoo.py",
        "inverse_root(matrix, 2 * len(sides), damping)",
        "inverse_root(matrix, 2, damping)",
        "tests/exact/test_adaptive_rules.py -k shampoo",
    ),
    Mutation(
        "SOAP's squares gathered in the wrong basis",
        "updates/soap.py",
        "jax.tree.map(jnp.square, _rotated(gradients, bases, there=True))",
        "jax.tree.map(jnp.square, _rotated(gradients, state.bases, there=True))",
        "tests/exact/test_adaptive_rules.py -k soap",
    ),
    Mutation(
        "GGT's share of the oldest gradient",
        "updates/ggt.py",
        "V @ (V[0] /",
        "V @ (V[-1] /",
        "tests/exact/test_adaptive_rules.py -k ggt",
    ),
    Mutation(
        "Sophia takes every curvature as it is",
        "updates/sophia.py",
        "down = curvature if bends_down(self.curvature) else",
        "down = curvature if not bends_down(self.curvature) else",
        "tests/exact/test_adaptive_rules.py -k sophia",
    ),
    Mutation(
        "K-FAC's damping shared out the wrong way",
        "updates/kfac.py",
        "inverse(_add(A, pi * root)) @ stacked @ inverse(_add(G, root / pi))",
        "inverse(_add(A, root / pi)) @ stacked @ inverse(_add(G, pi * root))",
        "tests/exact/test_kfac.py -k factored_damping",
    ),
    Mutation(
        "a probe forgets the scores of earlier chunks",
        "curvature/causal_probe.py",
        "jax.tree.map(jnp.add, product, across)",
        "product",
        "tests/exact/test_hutchinson.py -k gradients_pass",
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
        "policies/distributions/categorical.py",
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
    Mutation(
        "a frozen seed plays on",
        "training.py",
        "after = jax.tree.map(partial(jnp.where, frozen), state, after)",
        "after = jax.tree.map(partial(jnp.where, frozen & ~frozen), state, after)",
        f"{NUMBERS} -k keeps_failing",
    ),
    Mutation(
        "failures counted, but not in a row",
        "training.py",
        "jnp.where(fine, 0, state.failures + 1)",
        "jnp.where(fine, state.failures, state.failures + 1)",
        f"{NUMBERS} -k success_in_between",
    ),
    Mutation(
        "a curvature that is not finite gets by",
        "updates/update_rule.py",
        "jnp.where(all_finite(tree), share, jnp.nan)",
        "share",
        f"{NUMBERS} -k curvature",
    ),
    Mutation(
        "the derivative of tanh with the wrong sign of x",
        "policies/distributions/gaussian.py",
        "2 * (math.log(2) - x - jax.nn.softplus(-2 * x))",
        "2 * (math.log(2) + x - jax.nn.softplus(-2 * x))",
        "tests/exact/test_distributions.py -k action_taken",
    ),
    Mutation(
        "the curvature of a Gaussian's scale without its positive part",
        "policies/distributions/gaussian.py",
        "jnp.diag(math.sqrt(2) * jnp.abs(e))",
        "jnp.diag(0 * jnp.abs(e))",
        "tests/exact/test_diagonals.py -k every_head",
    ),
    Mutation(
        "free outputs left out of the exact Hessian diagonal",
        "policies/layers.py",
        'jnp.einsum("nc,ncu->nu", signs, jnp.square(delta)) for delta in travelling[network.depth :]',
        "0 * delta[:, 0] for delta in travelling[network.depth :]",
        "tests/exact/test_diagonals.py -k every_head",
    ),
    Mutation(
        "an action given to the environment as it was drawn",
        "rollout.py",
        "jax.vmap(policy.distribution.executed)(action))",
        "action)",
        "tests/exact/test_rollouts.py -k within_its_bounds",
    ),
    Mutation(
        "conjugate gradients along plain residuals",
        "updates/conjugate_gradient.py",
        "_plus(r, rr / old.rr, old.p)",
        "_plus(r, 0, old.p)",
        "tests/exact/test_conjugate_gradient.py -k unknowns_solve",
    ),
    Mutation(
        "the Fisher matrix summed over steps, not averaged, in the natural gradient",
        "updates/natural_gradient.py",
        "m / steps + damping * v",
        "m + damping * v",
        f"{NATURAL} -k dense_solve",
    ),
    Mutation(
        "a line search that does not look at the divergence",
        "updates/trust_region.py",
        "(kl <= self.natural.kl_radius) & (gain > 0)",
        "(kl <= kl) & (gain > 0)",
        f"{NATURAL} -k leaves_its_radius",
    ),
    Mutation(
        "a failed line search takes its last, untested step",
        "updates/trust_region.py",
        "jnp.where(end.found, end.factor, 0)",
        "jnp.where(end.found, end.factor, end.factor)",
        f"{NATURAL} -k leaves_its_radius",
    ),
    Mutation(
        "importance ratios of the whole past forgotten from chunk to chunk",
        "objective.py",
        "return past + log_ratio.sum(axis=0), total",
        "return past, total",
        "tests/exact/test_diagonals.py -k kl_and_surrogate",
    ),
    Mutation(
        "what a random probe adds to an estimator's variance, forgotten",
        "experiments/moments.py",
        "return values, off_diagonal / quantity.probes, True",
        "return values, 0 * off_diagonal, True",
        "tests/exact/test_theory.py -k beside_the_diagonal",
    ),
    Mutation(
        "the exact values of the first step taken for those of all",
        "experiments/listing.py",
        "by_time[jnp.arange(rows)[:, None], state]",
        "by_time[0 * jnp.arange(rows)[:, None], state]",
        "tests/exact/test_theory.py -k by_hand",
    ),
    Mutation(
        "the script's entropy value with the other sign",
        "experiments/as_run.py",
        "return -jnp.sum(weights * jnp.exp(log_prob) * log_prob)",
        "return jnp.sum(weights * jnp.exp(log_prob) * log_prob)",
        "tests/exact/test_as_run_slowly.py -k heun",
    ),
    Mutation(
        "the Hessian product taken at the iterate, not on the way to it",
        "updates/hessian_momentum.py",
        "self.curvature.product(on_the_way, ",
        "self.curvature.product(objective, ",
        f"{RECURSIVE} -k random_point",
    ),
    Mutation(
        "what is subtracted is the gradient at the iterate itself",
        "updates/storm.py",
        "gradient_there(objective, state.previous, self.largest_ratio)",
        "gradient_there(objective, params, self.largest_ratio)",
        f"{RECURSIVE} -k importance_weighted",
    ),
    Mutation(
        "transport asks too near",
        "updates/transport.py",
        "scaled((1 - alpha) / alpha, ",
        "scaled(1 - alpha, ",
        f"{RECURSIVE} -k transport",
    ),
    Mutation(
        "the Hessian's own sign where conjugate gradients need the other",
        "updates/hessian_free.py",
        "jax.tree.map(jnp.negative, image)",
        "image",
        f"{NEWTON} -k dense_damped_solve",
    ),
    Mutation(
        "the hard case of the cubic model left out",
        "updates/cubic.py",
        "jnp.where(hard, tau, 0) * u",
        "0 * u",
        f"{NEWTON} -k secular",
    ),
    Mutation(
        "the critic's weights without the features of the state",
        "updates/natural_actor_critic.py",
        "weights = e * (along + phi @ v)",
        "weights = e * along",
        f"{NEWTON} -k least_squares",
    ),
    Mutation(
        "a verdict from the value alone, not from its interval",
        "experiments/verdicts.py",
        "REPRODUCED if number.low >= bound",
        "REPRODUCED if number.value >= bound",
        "tests/paper/test_verdicts.py -k the_rules",
    ),
    Mutation(
        "finished parts kept without their learning rate",
        "experiments/store.py",
        '"rate": cell.rate,',
        '"rate": None,',
        "tests/paper/test_study.py -k changes_the_digest",
    ),
    Mutation(
        "a lane's episode counted under the next one's number",
        "experiments/evaluation.py",
        "place = (jnp.where(over, now.member, shape[0]), now.episode)",
        "place = (jnp.where(over, now.member, shape[0]), now.episode + 1)",
        "tests/paper/test_study.py -k lanes_play",
    ),
)
