"""Stable-Baselines3 with its defaults on CartPole, 8 environments: steps per second, as one line of JSON."""

import json
import sys
import time

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

algorithm, steps = {"a2c": A2C, "ppo": PPO}[sys.argv[1]], int(sys.argv[2])
model = algorithm("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=0), device="cpu", seed=0)
model.learn(model.n_steps * 8)
started, busy = time.perf_counter(), time.process_time()
model.learn(steps)
print(
    json.dumps(
        {
            "steps_per_second": model.num_timesteps / (time.perf_counter() - started),
            "steps_per_cpu_second": model.num_timesteps / (time.process_time() - busy),
        }
    )
)
