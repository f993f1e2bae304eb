"""The customary REINFORCE loop in PyTorch and Gymnasium: one environment, one action at a time, one episode an update.

Runs in an environment of its own (`make peers`) and prints one line of JSON.
"""

import json
import sys
import time

import gymnasium
import torch
from torch import nn
from torch.distributions import Categorical


def main(episodes: int) -> None:
    torch.manual_seed(0)
    environment = gymnasium.make("CartPole-v1")
    network = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    steps, started = 0, time.perf_counter()
    for episode in range(episodes):
        observation, _ = environment.reset(seed=episode)
        log_probs, rewards, over = [], [], False
        while not over:
            choice = Categorical(logits=network(torch.as_tensor(observation, dtype=torch.float32)))
            action = choice.sample()
            log_probs.append(choice.log_prob(action))
            observation, reward, terminated, truncated, _ = environment.step(int(action))
            rewards.append(float(reward))
            over = terminated or truncated
        returns, later = [], 0.0
        for reward in reversed(rewards):
            later = reward + 0.99 * later
            returns.append(later)
        weights = torch.tensor(returns[::-1])
        weights = (weights - weights.mean()) / (weights.std() + 1e-8)
        optimiser.zero_grad()
        (-(torch.stack(log_probs) * weights).sum()).backward()
        optimiser.step()
        steps += len(rewards)
    seconds = time.perf_counter() - started
    print(json.dumps({"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
