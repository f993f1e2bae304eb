"""Training runs of the paper's grid as a PyTorch script does them: linear policy, one episode an update, no evaluation.

Runs in an environment of its own (`make peers`) and prints one line of JSON.
"""

import json
import sys
import time

import gymnasium
import torch

UPDATES, RATE, DISCOUNT = 500, 0.002, 0.99


def train(seed: int) -> int:
    """One run of REINFORCE with P(action 0) = σ(θᵀs); returns its environment steps."""
    torch.manual_seed(seed)
    environment = gymnasium.make("CartPole-v1")
    theta = torch.rand(4, requires_grad=True)
    steps = 0
    for update in range(UPDATES):
        observation, _ = environment.reset(seed=1000 * seed + update)
        log_probs, rewards, over = [], [], False
        while not over:
            first = torch.sigmoid(theta @ torch.as_tensor(observation, dtype=torch.float32))
            action = int(torch.rand(()) >= first)
            log_probs.append(torch.log(first if action == 0 else 1 - first))
            observation, reward, terminated, truncated, _ = environment.step(action)
            rewards.append(float(reward))
            over = terminated or truncated
        returns, later = [], 0.0
        for reward in reversed(rewards):
            later = reward + DISCOUNT * later
            returns.append(later)
        (gradient,) = torch.autograd.grad((torch.stack(log_probs) * torch.tensor(returns[::-1])).sum(), theta)
        theta = (theta + RATE * gradient).detach().requires_grad_()
        steps += len(rewards)
    return steps


def main(runs: int) -> None:
    started = time.perf_counter()
    steps = sum(map(train, range(runs)))
    print(json.dumps({"runs": runs, "steps": steps, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
