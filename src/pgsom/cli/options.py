"""The options of ``pgsom train``: those of the run, and those of the methods, read off the methods' signatures.

An option of a method is a parameter of its function, or a field of `Common`. Its kind follows from the annotation, its
default from the signature; `HELP` adds a topic and a few words.
"""

import inspect
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin

from pgsom.baselines import BASELINES, LEARNED
from pgsom.cli.arguments import COUNT, FLAG, NUMBER, PATH, SEEDS, SWITCH, TABLE, TEXT, WIDTHS, Kind, Option
from pgsom.curvature import ESTIMATORS, NUMBERED, PROBED
from pgsom.methods import METHODS, Common, method_options
from pgsom.policies import ACTIONS, INITIALS, POLICIES
from pgsom.policies.networks import ACTIVATIONS
from pgsom.policies.policy import LOG_STDS
from pgsom.schemes import SCHEMES

LEARNING, CURVATURE, STABILISERS = "method", "curvature and momentum", "stabilisers"
CRITIC = "critic and normalisation"
HELP: dict[str, tuple[str, str]] = {
    "learning_rate": (LEARNING, "step length η"),
    "batch": (LEARNING, "episodes in a batch; each fresh stage plays one"),
    "steps": (LEARNING, "of each of --batch environments in a batch; 0: whole episodes"),
    "discount": (LEARNING, "γ"),
    "discounting": (LEARNING, "how γ enters"),
    "reduction": (LEARNING, "over steps"),
    "baseline": (LEARNING, ""),
    "baseline_value": (LEARNING, "of --baseline constant"),
    "baseline_decay": (LEARNING, "of --baseline moving-average"),
    "scheme": (LEARNING, "euler, for runge-kutta-pg heun, or one of"),
    "alpha": (LEARNING, "weight of the first stage in --scheme paper"),
    "stage_data": (LEARNING, "episodes of later stages"),
    "curvature": (CURVATURE, ""),
    "probes": (CURVATURE, "random probes; 0: exact"),
    "refresh": (CURVATURE, "updates between two estimates of the curvature"),
    "shape": (CURVATURE, "sign handling"),
    "exponent": (CURVATURE, "power p of the curvature"),
    "damping": (CURVATURE, "ε added to the curvature"),
    "step_length": (CURVATURE, ""),
    "kl_radius": (CURVATURE, "KL divergence per step of an update"),
    "beta1": (CURVATURE, "decay of the average gradient"),
    "beta2": (CURVATURE, "decay of the average curvature"),
    "cg_steps": (CURVATURE, "most conjugate gradient steps in an update"),
    "tolerance": (CURVATURE, "relative residual that ends a solve"),
    "lanczos_steps": (CURVATURE, "Hessian products whose span holds the step"),
    "regularisation": (CURVATURE, "ρ of the cubic term, the larger the shorter the step"),
    "backtrack": (CURVATURE, "factor between two tries of the line search"),
    "accept": (CURVATURE, "least share of the predicted gain that is accepted"),
    "tries": (CURVATURE, "tries of the line search"),
    "tracking": (CURVATURE, "share φ of the fresh error in what sets the memory"),
    "fresh": (CURVATURE, "share α of the fresh gradient; page-pg: probability"),
    "fresh_power": (CURVATURE, "p where α falls as (t + 1)^−p"),
    "rate_power": (CURVATURE, "q where the learning rate falls as (t + 1)^−q"),
    "normalised": (CURVATURE, "steps of length η, whatever the estimate's"),
    "period": (CURVATURE, "updates from one renewed gradient to the next"),
    "spread": (CURVATURE, "random points on the last step, a batch at each"),
    "largest_ratio": (CURVATURE, "limit on an episode's importance ratio; inf: none"),
    "largest_estimate": (CURVATURE, "limit G on the norm of the estimate that is carried; inf: none"),
    "offset": (CURVATURE, "m in the step length (m + Σ ‖ĝ‖²)^−1/3"),
    "fresh_factor": (CURVATURE, "c where α is c times the square of that"),
    "bias_correction": (CURVATURE, "of both averages"),
    "b1": (CURVATURE, "decay of the average gradient"),
    "b2": (CURVATURE, "decay of the average squared gradient"),
    "eps": (CURVATURE, "added to a scale to keep it off zero"),
    "block": (CURVATURE, "neighbouring entries of the diagonal that share their mean"),
    "gamma": (CURVATURE, "factor on the average curvature"),
    "sums": (CURVATURE, "sums of second moments in place of averages"),
    "window": (CURVATURE, "how many of the latest gradients are kept"),
    "decay": (CURVATURE, "of what was gathered from earlier batches"),
    "momentum": (CURVATURE, "share of the last direction that is kept"),
    "longest": (STABILISERS, "largest factor on the direction when its length is set"),
    "epochs": (CURVATURE, "passes over a batch"),
    "minibatches": (CURVATURE, "into which each pass is cut"),
    "clip": (CURVATURE, "ε, beyond which a ratio of probabilities counts no more"),
    "standardise_advantages": (CURVATURE, "in each minibatch"),
    "stop_kl": (CURVATURE, "mean KL divergence that ends an update's passes; inf: off"),
    "advantage": (CRITIC, "from the critic"),
    "gae_lambda": (CRITIC, "λ of the advantages"),
    "n_step": (CRITIC, "rewards in an n-step advantage"),
    "td_lambda": (CRITIC, "λ of the critic's targets"),
    "bootstrap": (CRITIC, "a time limit is worth what the critic says"),
    "critic_rate": (CRITIC, "learning rate"),
    "critic_epochs": (CRITIC, "passes over a batch"),
    "critic_minibatches": (CRITIC, "into which each pass is cut"),
    "critic_clip": (CRITIC, "how far V may move to lower its loss; inf: off"),
    "critic_clip_norm": (CRITIC, "largest norm of its gradient; inf: off"),
    "critic_optimiser": (CRITIC, ""),
    "critic_hidden": (CRITIC, "widths of its hidden layers"),
    "critic_activation": (CRITIC, "of its hidden layers"),
    "normalise_observations": (CRITIC, "by their running mean and standard deviation"),
    "normalise_rewards": (CRITIC, "by the running standard deviation of the return"),
    "rate_decay": (STABILISERS, "share of the learning rates gone by the end, linearly"),
    "max_gradient_norm": (STABILISERS, "of a gradient before the optimiser sees it; inf: off"),
    "entropy": (STABILISERS, "coefficient of the entropy bonus"),
    "clip_norm": (STABILISERS, "largest norm of the direction; inf: off"),
    "clip_elements": (STABILISERS, "largest absolute value in it; inf: off"),
    "freeze_after": (STABILISERS, "failed updates in a row that freeze a seed; inf: never"),
    "trust_cap": (STABILISERS, "the same before its length is set"),
}
"""Topic and meaning of every option of a method; an option that several methods share means the same in all."""

NAMED_PARTS: dict[str, Iterable[str]] = {
    "curvature": (*ESTIMATORS, *PROBED),
    "baseline": (*BASELINES, *LEARNED),
    "scheme": SCHEMES,
    "critic_activation": ACTIVATIONS,
}
"""Options that take a name or an object; on the command line a name."""


def _about(topic: str, *options: Option) -> tuple[Option, ...]:
    return tuple(replace(option, topic=topic) for option in options)


def _annotations(method: str) -> dict[str, Any]:
    own = {name: parameter.annotation for name, parameter in inspect.signature(METHODS[method]).parameters.items()}
    return own | {field.name: field.type for field in fields(Common)}


def _kind_and_choices(name: str, annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    """What values an option takes, from its annotation."""
    if name in NAMED_PARTS:
        return TEXT, tuple(NAMED_PARTS[name])
    if get_origin(annotation) is Literal:
        return TEXT, get_args(annotation)
    if get_origin(annotation) is tuple:
        return WIDTHS, ()
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return {bool: SWITCH, int: COUNT, float: NUMBER, str: TEXT}[annotation], ()


def _method_option(name: str) -> Option:
    takers = {method: method_options(method)[name] for method in METHODS if name in method_options(method)}
    kind, choices = _kind_and_choices(name, _annotations(next(iter(takers)))[name])
    topic, help_words = HELP[name]
    shared = len(takers) == len(METHODS) and len(set(takers.values())) == 1
    default = next(iter(takers.values())) if shared else takers
    numbered = NUMBERED if name == "curvature" else ()
    return Option(name, kind, help_words, default, choices, topic=topic, numbered=numbered)


RUN_OPTIONS = _about(
    "run",
    Option("environment", TEXT, "pgsom list environments", "CartPole-v1", spelled=("--env", "--environment")),
    Option("environment_options", TABLE, "what it is made with", spelled=("--env-options",)),
    Option("method", TEXT, "", "pg-som", tuple(METHODS)),
    Option("seeds", SEEDS, "how many independent seeds; or which: 0,2,5", 1),
    Option("episodes", COUNT, "budget of each seed; every stage of every update counts", 500),
    Option("updates", COUNT, "budget of each seed in updates, instead of --episodes"),
    Option("env_steps", COUNT, "the same in environment steps; of methods with --steps"),
    Option("policy", TEXT, "mlp, for whole-number states tabular, or one of", None, tuple(POLICIES)),
    Option("hidden", WIDTHS, "widths of the mlp's hidden layers, or none", (64, 64)),
    Option("activation", TEXT, "of the mlp", "tanh", tuple(ACTIVATIONS)),
    Option("initial", TEXT, "first weights of the mlp", "orthogonal", tuple(INITIALS)),
    Option("layer_norm", SWITCH, "normalise the mlp's hidden layers", False),
    Option("actions", TEXT, "distribution of continuous actions", "gaussian", tuple(ACTIONS)),
    Option("log_std", TEXT, "where a Gaussian's scales come from", "free", tuple(LOG_STDS)),
    Option("seed", COUNT, "root of all randomness", 0),
    Option("evaluate", COUNT, "fresh episodes for each seed after training; 0: none", 100),
    Option("preset", TEXT, "complete settings by name (pgsom list presets); --config and the command line win"),
    Option("config", PATH, "TOML file of options, such as learning_rate = 0.1; the command line wins"),
)

METHOD_OPTIONS = tuple(_method_option(name) for name in HELP)

KEEPING_OPTIONS = _about(
    "output",
    Option("checkpoint_seconds", NUMBER, "from one checkpoint to the next", 60.0),
    Option("checkpoint_updates", COUNT, "the same in updates; 0: by the clock alone", 0),
    Option("keep", COUNT, "checkpoints that stay, beside the best", 3),
)

WATCHING_OPTIONS = (
    Option("log", TEXT, "jsonl, tensorboard, wandb, or several with commas, into that folder (docs/watching.md)"),
    Option("evaluate_every", COUNT, "updates from one evaluation on the way to the next; 0: none", 0),
    Option("evaluation_episodes", COUNT, "fresh episodes for each seed in them", 20),
    Option("target_return", NUMBER, "the run ends when such an evaluation reaches it"),
)

OUTPUT_OPTIONS = _about(
    "output",
    Option("out", PATH, "folder that keeps the run while it goes on (docs/runs.md)"),
    Option("resume", TEXT, "carry on the run in that folder if there is one", choices=("auto",)),
    Option("overwrite", FLAG, "replace the run in that folder"),
    *KEEPING_OPTIONS,
    *WATCHING_OPTIONS,
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("quiet", FLAG, "no progress"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)

TRAIN_OPTIONS = (*RUN_OPTIONS, *METHOD_OPTIONS, *OUTPUT_OPTIONS)
FILE_OPTIONS = tuple(option for option in TRAIN_OPTIONS if option.name not in ("config", "debug", "help"))


def takers(option: Option) -> tuple[str, ...]:
    """The methods that have this option."""
    return tuple(option.default) if isinstance(option.default, Mapping) else tuple(METHODS)


def options_of(method: str) -> tuple[Option, ...]:
    """The options of ``train`` that apply to one method, with its own defaults."""
    defaults = method_options(method)
    own = (replace(o, default=defaults[o.name]) for o in METHOD_OPTIONS if o.name in defaults)
    return (*RUN_OPTIONS, *own, *OUTPUT_OPTIONS)


def default_of(name: str) -> Any:
    """What an option of the run is if it is not given."""
    return next(option.default for option in RUN_OPTIONS if option.name == name)
