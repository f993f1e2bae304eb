"""Table 1 as files: CSV, Parquet, Markdown, LaTeX; and its cells for a terminal."""

import csv
from collections.abc import Sequence
from pathlib import Path

from pgsom.experiments.table import Row

READINGS = {"plus": "+x²σ(1−σ)", "minus": "−x²σ(1−σ)", "none": "no curvature", "": ""}
HEADER = (
    "protocol",
    "method",
    "stabiliser",
    "reading",
    "printed",
    "ours",
    "95 % interval",
    "mean of 5 runs",
    "std of 5 runs",
    "mean in band",
    "std in band",
    "episodes",
    "env steps",
)
ALIGN = "llllrrrrrllrr"
NOTE = (
    "Printed: mean ± standard deviation of five runs. Ours: over {seeds} seeds, with the 95 % interval of the mean. "
    "Then the bands in which mean and (population) standard deviation of five of our runs fall in 95 of 100 cases, and "
    "whether the printed ones lie in them. Episodes and steps are those of one run, every stage of every update "
    "counted."
)
ALIKE = {"²": "$^2$", "σ": r"$\sigma$", "−": "$-$", "±": r"$\pm$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"}


def write_table(rows: Sequence[Row], path: Path) -> list[Path]:
    """``path`` with the endings csv, parquet, md and tex."""
    import polars

    places = [path.with_name(f"{path.name}.{ending}") for ending in ("csv", "parquet", "md", "tex")]
    with places[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)
    polars.DataFrame([row._asdict() for row in rows]).write_parquet(places[1])
    places[2].write_text(markdown(rows) + "\n\n" + note(rows) + "\n", encoding="utf-8")
    places[3].write_text(latex(rows), encoding="utf-8")
    return places


def note(rows: Sequence[Row]) -> str:
    """How the table is read."""
    counts = sorted({row.seeds for row in rows})
    return NOTE.format(seeds=" or ".join(map(str, counts)))


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, under `HEADER`."""
    return (
        row.protocol,
        row.method,
        row.stabiliser,
        READINGS[row.reading],
        f"{row.printed_mean:.1f} ± {row.printed_std:.1f}",
        f"{row.mean:.1f} ± {row.std:.1f}",
        f"[{row.ci_low:.1f}, {row.ci_high:.1f}]",
        f"[{row.five_run_mean_low:.1f}, {row.five_run_mean_high:.1f}]",
        f"[{row.five_run_std_low:.1f}, {row.five_run_std_high:.1f}]",
        yes_no(row.mean_is_in_band),
        yes_no(row.std_is_in_band),
        f"{row.episodes:,.0f}",
        f"{row.env_steps:,.0f}",
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table for people."""
    rule = ["---:" if letter == "r" else "---" for letter in ALIGN]
    lines = ["| " + " | ".join(part) + " |" for part in (HEADER, rule, *map(cells, rows))]
    return "\n".join(lines)


def latex(rows: Sequence[Row]) -> str:
    """The table for a paper, with booktabs."""
    lines = [r"% needs \usepackage{booktabs}", rf"\begin{{tabular}}{{@{{}}{ALIGN}@{{}}}}", r"\toprule", _line(HEADER)]
    before: tuple[str, str] | None = None
    for row in rows:
        if (row.protocol, row.method) != before:
            lines.append(r"\midrule")
        before = (row.protocol, row.method)
        lines.append(_line(cells(row)))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def yes_no(value: bool) -> str:
    """In words."""
    return "yes" if value else "no"


def _line(texts: Sequence[str]) -> str:
    return " & ".join("".join(ALIKE.get(letter, letter) for letter in text) for text in texts) + r" \\"
