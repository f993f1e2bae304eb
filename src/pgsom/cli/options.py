"""The options of ``pgsom train``.

Importing the methods imports JAX, a second that ``--help`` shall not wait. So their options, defaults and choices
stand here once more, and a test compares every one of them with the methods.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgsom.cli.arguments import COUNT, FLAG, NUMBER, PATH, SEEDS, SWITCH, TEXT, WIDTHS, Option

METHODS = ("reinforce", "hessian-pg", "runge-kutta-pg", "pg-som", "adam")
POLICIES = ("mlp", "linear", "tabular")
ACTIVATIONS = ("tanh", "relu", "silu", "softplus")
DISCOUNTINGS = ("lemma", "appendix", "undiscounted")
REDUCTIONS = ("sum", "mean")
BASELINES = ("none", "constant", "moving-average", "time-step", "leave-one-out")
SCHEMES = ("euler", "heun", "midpoint", "ralston", "rk4", "paper")
STAGE_DATA = ("fresh", "reweighted")
ESTIMATORS = ("gauss-newton", "fisher", "causal", "lemma", "log-density", "hutchinson")
SHAPES = ("raw", "absolute", "negative_part", "rms")
STEP_LENGTHS = ("rate", "kl")
INFINITE = float("inf")


def _about(topic: str, *options: Option) -> tuple[Option, ...]:
    return tuple(replace(option, topic=topic) for option in options)


def _som(default: Any) -> dict[str, Any]:
    """One default for the methods that divide by a curvature."""
    return {"hessian-pg": default, "pg-som": default}


RUN_OPTIONS = _about(
    "run",
    Option("environment", TEXT, "pgsom list environments", "CartPole-v1", spelled=("--env", "--environment")),
    Option("method", TEXT, "", "pg-som", METHODS),
    Option("seeds", SEEDS, "how many independent seeds; or which: 0,2,5", 1),
    Option("episodes", COUNT, "budget of each seed; every stage of every update counts", 500),
    Option("updates", COUNT, "budget of each seed in updates, instead of --episodes"),
    Option("policy", TEXT, "mlp, for whole-number states tabular, or one of", None, POLICIES),
    Option("hidden", WIDTHS, "widths of the mlp's hidden layers, or none", (64, 64)),
    Option("activation", TEXT, "of the mlp", "tanh", ACTIVATIONS),
    Option("seed", COUNT, "root of all randomness", 0),
    Option("evaluate", COUNT, "fresh episodes for each seed after training; 0: none", 100),
    Option("config", PATH, "TOML file of options, such as learning_rate = 0.1; the command line wins"),
)

METHOD_OPTIONS = (
    *_about(
        "method",
        Option(
            "learning_rate",
            NUMBER,
            "step length η",
            {"reinforce": 0.0005, "hessian-pg": 0.01, "runge-kutta-pg": 0.001, "pg-som": 1.0, "adam": 0.005},
        ),
        Option("batch", COUNT, "episodes in a batch; each fresh stage plays one", 4),
        Option("discount", NUMBER, "γ", 0.99),
        Option("discounting", TEXT, "how γ enters", "appendix", DISCOUNTINGS),
        Option("reduction", TEXT, "over steps", "sum", REDUCTIONS),
        Option("baseline", TEXT, "", "leave-one-out", BASELINES),
        Option("baseline_value", NUMBER, "of --baseline constant", 0.0),
        Option("baseline_decay", NUMBER, "of --baseline moving-average", 0.9),
        Option("scheme", TEXT, "euler, for runge-kutta-pg heun, or one of", None, SCHEMES),
        Option("alpha", NUMBER, "weight of the first stage in --scheme paper", 0.5),
        Option("stage_data", TEXT, "episodes of later stages", "fresh", STAGE_DATA),
    ),
    *_about(
        "curvature and momentum, for the methods named",
        Option("curvature", TEXT, "", {"hessian-pg": "causal", "pg-som": "gauss-newton"}, ESTIMATORS),
        Option("probes", COUNT, "random probes for the curvature; 0: exact", _som(0)),
        Option("shape", TEXT, "", _som("absolute"), SHAPES),
        Option("exponent", NUMBER, "power p of the curvature", _som(1.0)),
        Option("damping", NUMBER, "ε added to it", {"hessian-pg": 1.0, "pg-som": 0.1}),
        Option("step_length", TEXT, "", {"pg-som": "kl"}, STEP_LENGTHS),
        Option("kl_radius", NUMBER, "of --step-length kl", {"pg-som": 0.005}),
        Option("beta1", NUMBER, "decay of the average gradient", {"pg-som": 0.5}),
        Option("beta2", NUMBER, "decay of the average curvature", {"pg-som": 0.9}),
        Option("bias_correction", SWITCH, "of both averages", {"pg-som": True}),
        Option("b1", NUMBER, "decay of the average gradient", {"adam": 0.9}),
        Option("b2", NUMBER, "decay of the average squared gradient", {"adam": 0.999}),
        Option("eps", NUMBER, "added to the latter's root", {"adam": 1e-8}),
    ),
    *_about(
        "stabilisers",
        Option("entropy", NUMBER, "coefficient of the entropy bonus", 0.0),
        Option("clip_norm", NUMBER, "largest norm of the direction; inf: off", INFINITE),
        Option("clip_elements", NUMBER, "largest absolute value in it; inf: off", INFINITE),
        Option("trust_cap", NUMBER, "the same before its length is set", _som(INFINITE)),
    ),
)

OUTPUT_OPTIONS = _about(
    "output",
    Option("out", PATH, "folder for settings, metrics, policies, summary and learning curve"),
    Option("overwrite", FLAG, "replace the finished run in that folder"),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("quiet", FLAG, "no progress"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)

TRAIN_OPTIONS = (*RUN_OPTIONS, *METHOD_OPTIONS, *OUTPUT_OPTIONS)
FILE_OPTIONS = tuple(option for option in TRAIN_OPTIONS if option.name not in ("config", "debug", "help"))


def takers(option: Option) -> tuple[str, ...]:
    """The methods that have this option."""
    return tuple(option.default) if isinstance(option.default, Mapping) else METHODS


def default_of(name: str) -> Any:
    """What an option of the run is if it is not given."""
    return next(option.default for option in RUN_OPTIONS if option.name == name)
