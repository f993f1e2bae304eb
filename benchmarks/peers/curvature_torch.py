"""What a curvature costs with PyTorch: BackPACK's and curvlinops', 500 samples, 4-64-64-2 tanh network, one thread.

Prints one JSON object, seconds by name: the median of many rounds, in which the contestants take turns. BackPACK's
losses take no weight for each sample, so all weigh 1.
"""

import json
import statistics
import sys
import time

import torch
from backpack import backpack, extend
from backpack.extensions import DiagGGNExact, DiagHessian
from curvlinops import GGNLinearOperator, HessianLinearOperator

torch.set_num_threads(1)
torch.manual_seed(0)
STEPS = 500


def network() -> torch.nn.Module:
    layers = (torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    return torch.nn.Sequential(*layers)


observations, actions = torch.randn(STEPS, 4), torch.randint(0, 2, (STEPS,))
plain, extended = network(), extend(network())
loss, extended_loss = torch.nn.CrossEntropyLoss(reduction="sum"), extend(torch.nn.CrossEntropyLoss(reduction="sum"))
operands = (plain, loss, list(plain.parameters()), [(observations, actions)])
vector = torch.randn(sum(p.numel() for p in plain.parameters()))
hessian = HessianLinearOperator(*operands, check_deterministic=False)
ggn = GGNLinearOperator(*operands, check_deterministic=False)


def gradient() -> None:
    torch.autograd.grad(loss(plain(observations), actions), list(plain.parameters()))


def with_backpack(extension: object) -> None:
    extended.zero_grad()
    with backpack(extension):
        extended_loss(extended(observations), actions).backward()


CONTESTANTS = {
    "gradient": gradient,
    "gradient and Gauss-Newton diagonal (BackPACK)": lambda: with_backpack(DiagGGNExact()),
    "gradient and Hessian diagonal (BackPACK)": lambda: with_backpack(DiagHessian()),
    "Hessian product (curvlinops)": lambda: hessian @ vector,
    "Gauss-Newton product (curvlinops)": lambda: ggn @ vector,
}


def main(rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for number in range(rounds + 3):
        for name, call in CONTESTANTS.items():
            started = time.perf_counter()
            call()
            if number >= 3:
                times[name].append(time.perf_counter() - started)
    print(json.dumps({name: statistics.median(own) for name, own in times.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 31)
