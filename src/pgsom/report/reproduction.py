"""``docs/reproduction.md``: what was claimed, what was found, how to check. Every number comes from the data."""

from collections.abc import Mapping, Sequence

from pgsom.experiments.learning_claims import across
from pgsom.experiments.printed import PRINTED
from pgsom.experiments.study import Study
from pgsom.experiments.table import Row
from pgsom.experiments.verdicts import Claim
from pgsom.report.paper_page import RULES, Context
from pgsom.report.paper_table import READINGS
from pgsom.runs.store import versions

HEAD = """# The paper, reproduced

*Policy Gradient with Second Order Momentum* (PG-SOM) divides a policy gradient by a running average of the Hessian's
diagonal, proposes a Runge-Kutta policy gradient beside it, and compares both with REINFORCE on CartPole. This page
says what of it holds. `make reproduction` writes it from the results of `{command}`; no number is typed by hand.

The paper leaves its network, discount, baseline, evaluation and momentum factors open, so there is no single
experiment to repeat. There are three here, each a short file of settings in which every number has its source. This
page has the results of:

{protocols}
"""
DOUBT = """## If you doubt a number

- `pgsom paper --claim C7` measures that claim again and nothing else; `--fresh` reuses nothing that is kept.
- `pgsom paper --protocol as-run --seeds 5` is the paper's own amount of work, with its 20 evaluations of 500 episodes.
- The settings stand in `src/pgsom/experiments/protocols/`; a changed number gives another digest, so results of other
  settings are never mixed.
- The compiled experiment is compared with a slow one by hand, step by step (`tests/exact/test_as_run.py`), and every
  estimator with the derivatives of the exact return (`pgsom theory`).
- The rules that give verdicts are tested on data whose truth is known (`tests/paper/test_verdicts.py`).
- Intervals are bootstrapped over seeds. Evaluations before the last have {before} episodes, the last has {last}.
"""


def reproduction(claims: Sequence[Claim], studies: Mapping[str, Study], rows: Sequence[Row], context: Context) -> str:
    """The page."""
    protocols = "\n".join(
        f"- **{name}**, {_seeds(study)} seeds: {study.protocol.summary}." for name, study in studies.items()
    )
    counts = [f"{sum(c.verdict == verdict for c in claims)} {verdict}" for verdict in _verdicts(claims)]
    parts = [
        HEAD.format(command=context.command, protocols=protocols),
        f"## The claims\n\n{len(claims)} claims: {', '.join(counts)}.\n\n{_claim_table(claims)}\n\n{RULES}\n",
        f"## In each setting\n\n{_settings_table(claims)}\n",
        f"## Table 1\n\n{_table_text(rows)}\n\n{_cells_table(rows)}\n",
        _figures(studies),
        _tuned(studies),
        DOUBT.format(before=context.episodes_before, last=context.episodes),
        f"Made with {', '.join(f'{name} {version}' for name, version in versions().items() if name != 'machine')}.",
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _seeds(study: Study) -> int:
    return len(next(iter(study.trained.values())).scores)


def _verdicts(claims: Sequence[Claim]) -> list[str]:
    return list(dict.fromkeys(claim.verdict for claim in claims))


def _claim_table(claims: Sequence[Claim]) -> str:
    return _markdown(
        ("", "claim", "verdict", "number [95 %]", "why"),
        [(c.name, c.text, f"**{c.verdict}**", f"{c.number.text()}: {c.what}", c.why) for c in claims],
    )


def _settings_table(claims: Sequence[Claim]) -> str:
    """Claims that are looked at in several settings, and what each says."""
    found = {claim.name: across(claim.findings) for claim in claims}
    several = {name: said for name, said in found.items() if len(said) > 2}
    settings = list(dict.fromkeys(setting for said in several.values() for setting in said))
    body = [(name, *(said.get(setting, "") for setting in settings)) for name, said in several.items()]
    intro = (
        "as-run stands in the three readings of what the paper leaves open in its Hessian rows: the second derivative "
        "added (+), subtracted (−), or left out (0)."
    )
    return f"{intro}\n\n{_markdown(('', *settings), body)}"


def _table_text(rows: Sequence[Row]) -> str:
    said = []
    for protocol in dict.fromkeys(row.protocol for row in rows):
        own = [row for row in rows if row.protocol == protocol]
        for reading in dict.fromkeys(row.reading for row in own if row.reading) or ("",):
            seen = [row for row in own if row.reading in ("", reading)]
            inside = sum(row.mean_is_in_band for row in seen)
            words = f"{protocol}, {READINGS[reading]}" if reading else protocol
            said.append(
                f"- {words}: {inside} of {len(PRINTED)} printed means lie where the mean of five of our runs falls"
            )
    return "\n".join([*said, "", "Bold: the printed mean does not lie in the band. Episodes count every stage."])


def _cells_table(rows: Sequence[Row]) -> str:
    """A row for each cell and reading, without the columns that only the files have."""
    body = []
    for row in rows:
        band = f"[{row.five_run_mean_low:.0f}, {row.five_run_mean_high:.0f}]"
        printed = f"{row.printed_mean:.1f} ± {row.printed_std:.1f}"
        body.append(
            (
                row.protocol,
                row.method,
                row.stabiliser,
                READINGS[row.reading],
                printed if row.mean_is_in_band else f"**{printed}**",
                f"{row.mean:.1f} ± {row.std:.1f}",
                f"[{row.ci_low:.1f}, {row.ci_high:.1f}]",
                band,
                f"{row.episodes:,.0f}",
            )
        )
    header = ("protocol", "method", "stabiliser", "reading", "printed", "ours", "95 %", "mean of 5 runs", "episodes")
    return _markdown(header, body)


def figure_names(studies: Mapping[str, Study]) -> dict[str, str]:
    """The figures that the page shows, by file, with what they are."""
    found = {}
    for name in studies:
        found[f"figure2_{name}"] = f"Figure 2, {name}: the three methods without a stabiliser"
        found[f"figure3_{name}"] = f"Figure 3, {name}: the last evaluation of every variant"
    return found


def _figures(studies: Mapping[str, Study]) -> str:
    lines = [f"![{caption}](figures/{file}.png)\n" for file, caption in figure_names(studies).items()]
    return "\n".join(["## Figures\n", *lines])


def _tuned(studies: Mapping[str, Study]) -> str:
    study = studies.get("corrected")
    if study is None:
        return ""
    body = [(t.variant.label, f"{t.rate:g}", f"{t.score:.0f}") for t in study.tries if t.chosen]
    rates = ", ".join(f"{rate:g}" for rate in study.protocol["rates"])
    intro = (
        f"In `corrected` every method tried the same number of learning rates ({rates}), npg and pg-som as many KL "
        f"radii, on {study.protocol['tuning_seeds']} seeds of another root. Chosen:"
    )
    return f"## Tuning\n\n{intro}\n\n{_markdown(('variant', 'rate', 'mean final score in tuning'), body)}\n"


def _markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
