"""``pgsom play``: watch a trained policy, or film it."""

from collections.abc import Sequence
from pathlib import Path

from pgsom.checks import check_count
from pgsom.cli.arguments import COUNT, FLAG, PATH, Option, help_text, read_arguments
from pgsom.cli.saved import chosen_seed, run_folder

OPTIONS = (
    Option("episodes", COUNT, "how many", 1),
    Option("out", PATH, "film them in this file, GIF or MP4; by default they are shown in a window"),
    Option("seed", COUNT, "whose policy; by default the seed that ended best"),
    Option("stochastic", FLAG, "draw actions from the policy; by default the most probable is taken"),
    Option("fps", COUNT, "pictures a second in the film", 30),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom play RUN [--episodes N] [--out FILE.gif|FILE.mp4]"
SUMMARY = "Show the policy at play, or film it, and print the returns. Without a display the returns alone are printed."


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom play runs/first --out first.gif"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("run",))
    folder = run_folder(given)
    episodes = check_count("episodes", given.get("episodes", 1))
    frames_a_second = check_count("fps", given.get("fps", 30))

    from pgsom.playing import Shown, check_film, has_display, play, record, without_display
    from pgsom.runs import load

    out = Path(given["out"]) if "out" in given else None
    if out is not None:
        check_film(out)
    without_display()
    draw = "rgb_array" if out is not None else "human" if has_display() else None
    result = load(folder)
    seed = chosen_seed(result, given)
    film: list[Shown] = []
    for episode in range(episodes):
        shown = list(play(result, seed, draw=draw, stochastic=bool(given.get("stochastic")), episode=episode))
        print(f"episode {episode + 1}: return {shown[-1].total:.6g} in {shown[-1].steps:,} steps")
        film += shown
    if out is not None:
        print(f"filmed in {record(film, out, frames_a_second)}")
    elif draw is None:
        print("no display was found to show them on; --out FILE.gif films them")
    return 0
