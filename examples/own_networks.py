"""Policies of your own: a Flax NNX module, an Equinox module, and a critic with a network of its own."""

import equinox as eqx
import jax.numpy as jnp
from flax import nnx

import pgsom


class TwoLayers(nnx.Module):
    """From CartPole's four numbers to two logits."""

    def __init__(self, rngs):
        self.hidden = nnx.Linear(4, 32, rngs=rngs)
        self.last = nnx.Linear(32, 2, rngs=rngs)

    def __call__(self, observation):
        return self.last(nnx.tanh(self.hidden(observation)))


def main(**budget):
    with_flax = pgsom.Policy(pgsom.nnx_network(lambda rngs: TwoLayers(rngs)))
    with_equinox = pgsom.Policy(
        pgsom.equinox_network(lambda key: eqx.nn.MLP(4, 2, 32, 1, activation=jnp.tanh, key=key))
    )
    critic = pgsom.make_critic(network=pgsom.equinox_network(lambda key: eqx.nn.MLP(4, 1, 32, 2, key=key)))
    results = {
        "flax": pgsom.train("CartPole-v1", "adam", policy=with_flax, **budget),
        "equinox": pgsom.train("CartPole-v1", "adam", policy=with_equinox, baseline=critic, **budget),
    }
    for name, result in results.items():
        print(f"{name}: {result.returns[:, -1].mean():.0f}, {result.policy_definition.parameter_count()} parameters")
    return results


if __name__ == "__main__":
    main(seeds=4, episodes=400)
