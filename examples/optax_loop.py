"""Second-order momentum in a training loop that has nothing to do with pgsom or reinforcement learning.

A small network is fitted to a noisy sine by plain JAX and optax. All that `scale_by_som` asks of the loop is a
diagonal of the loss's curvature at each step; here it is one Hutchinson probe, v ⊙ (∇²loss v).
"""

import jax
import jax.numpy as jnp
import optax

from pgsom import scale_by_som


def init(key):
    first, second = jax.random.split(key)
    return {
        "in": jax.random.normal(first, (1, 32)),
        "shift": jnp.zeros(32),
        "out": jax.random.normal(second, (32, 1)) / 32**0.5,
    }


def loss(params, x, y):
    hidden = jnp.tanh(x @ params["in"] + params["shift"])
    return jnp.mean((hidden @ params["out"] - y) ** 2)


def hutchinson(params, key, *batch):
    v = optax.tree.random_like(key, params, jax.random.rademacher)
    product = jax.jvp(lambda p: jax.grad(loss)(p, *batch), (params,), (v,))[1]
    return jax.tree.map(jnp.multiply, v, product)


def main(steps=1000):
    optimiser = optax.chain(
        scale_by_som(shape="rms", damping=1e-3, trust_cap=1.0),
        optax.scale_by_learning_rate(0.05),
    )

    @jax.jit
    def step(params, state, key):
        data_key, noise_key, probe_key = jax.random.split(key, 3)
        x = jax.random.uniform(data_key, (64, 1), minval=-3.0, maxval=3.0)
        y = jnp.sin(2 * x) + 0.05 * jax.random.normal(noise_key, x.shape)
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        curvature = hutchinson(params, probe_key, x, y)
        updates, state = optimiser.update(gradient, state, params, hessian_diagonal=curvature)
        return optax.apply_updates(params, updates), state, value

    params = init(jax.random.key(0))
    state = optimiser.init(params)
    values = []
    for index in range(steps):
        params, state, value = step(params, state, jax.random.key(1 + index))
        values.append(float(value))
    return values


if __name__ == "__main__":
    curve = main()
    print(f"loss at the start {curve[0]:.3f}, over the last 50 steps {sum(curve[-50:]) / 50:.4f}")
