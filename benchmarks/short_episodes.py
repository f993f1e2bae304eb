"""Does work follow the steps really taken? An update of 20-step episodes beside one of 500-step episodes."""

from typing import Any

from benchmarks.fixed_length import FixedLength
from benchmarks.timing import side_by_side
from benchmarks.update_cost import methods, updates_of


def run() -> dict[str, Any]:
    answers: dict[str, Any] = {}
    print("\nan update with 20-step episodes beside one with 500-step episodes (wanted ≤ 0.15)")
    for name in ("reinforce", "pg-som gauss-newton", "pg-som hutchinson, 1 probe"):
        method = methods()[name]
        contestants = {str(length): updates_of(FixedLength(length), method, 1) for length in (20, 500)}
        timing = side_by_side(contestants, "500")["20"]
        print(f"  {name:<30} {timing.ratio}")
        answers[name] = timing.ratio.median
    return answers
