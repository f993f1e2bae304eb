"""The exact return of a linear-Gaussian policy in a linear-quadratic system, its derivatives, and the optimum.

The policy is u ~ N(K s, Σ), Σ = diag(exp 2ℓ). With the closed loop C = A + B K, in the symbols of the code:

    D_t = γ^t E[s_t s_tᵀ]       D_{t+1} = γ C D_t Cᵀ + γ^{t+1} (B Σ Bᵀ + W)         second moments, forward
    P_t                         P_t = Q + Kᵀ R K + γ Cᵀ P_{t+1} C,  P_H = 0          cost to go, backward
    L_t = R K + γ Bᵀ P_{t+1} C  and  w_t = γ^t

    J        = −Σ_t tr[(Q + Kᵀ R K) D_t] − Σ_t w_t tr(R Σ)
    ∂J/∂K    = −2 Σ_t L_t D_t
    ∂J/∂ℓ_i  = −2 Σ_ii Σ_t w_t (R + γ Bᵀ P_{t+1} B)_ii

For an infinite horizon the sums over t are the solutions of linear equations, kept as one "step". Everything is
differentiable JAX code in the default float dtype; use ``with jax.enable_x64(True)`` where it serves as the truth.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from pgsom.checks import wrong
from pgsom.environments.linear_quadratic import LinearQuadratic

Matrix = Float[Array, "row column"]
Matrices = Float[Array, "time row column"]


class LinearGaussian(NamedTuple):
    """The policy u ~ N(K s, diag exp 2ℓ), and also a direction in the space of such policies."""

    gain: Float[Array, "action state"]
    """K"""
    log_std: Float[Array, " action"]
    """ℓ"""


@partial(jax.jit, static_argnames="system")
def control_return(system: LinearQuadratic, policy: LinearGaussian) -> Float[Array, ""]:
    """J. For an infinite horizon it is finite only if γ ρ(C)² < 1, and −∞ is returned otherwise."""
    parts = _Parts.of(system, policy)
    covariance = jnp.exp(2 * policy.log_std)
    state_cost = parts.Q + policy.gain.T @ parts.R @ policy.gain
    cost = jnp.sum(state_cost * parts.D.sum(0)) + parts.w.sum() * jnp.sum(jnp.diag(parts.R) * covariance)
    if not system.infinite:
        return -cost
    stable = system.discount * jnp.max(jnp.abs(jnp.linalg.eigvals(jax.lax.stop_gradient(parts.C)))) ** 2 < 1
    return jnp.where(stable, -cost, -jnp.inf)


@partial(jax.jit, static_argnames="system")
def control_gradient(system: LinearQuadratic, policy: LinearGaussian) -> LinearGaussian:
    """∇J."""
    parts = _Parts.of(system, policy)
    return LinearGaussian(
        -2 * jnp.einsum("tij,tjk->ik", parts.L, parts.D),
        -2 * jnp.exp(2 * policy.log_std) * jnp.einsum("t,ti->i", parts.w, parts.action_curvature()),
    )


@partial(jax.jit, static_argnames="system")
def control_hessian_product(system: LinearQuadratic, policy: LinearGaussian, vector: LinearGaussian) -> LinearGaussian:
    """∇²J v, v = (E, e): the derivative of the gradient's terms along v.

    ::

        P′_t = γ Cᵀ P′_{t+1} C + Eᵀ L_t + L_tᵀ E
        D′_{t+1} = γ (C D′_t Cᵀ + B E D_t Cᵀ + C D_t Eᵀ Bᵀ) + γ^{t+1} B Σ′ Bᵀ,   Σ′ = 2 Σ diag e
        L′_t = R E + γ Bᵀ (P_{t+1} B E + P′_{t+1} C)
    """
    parts, (E, e) = _Parts.of(system, policy), vector
    B, gamma, covariance = parts.B, parts.gamma, jnp.exp(2 * policy.log_std)
    crossed = jnp.einsum("ji,tjk->tik", E, parts.L)
    P = parts.backward(crossed + crossed.transpose(0, 2, 1))
    moved = gamma * jnp.einsum("ij,tjk,lk->til", B @ E, parts.D, parts.C)
    wider = gamma * parts.w[:, None, None] * (B * (2 * covariance * e)) @ B.T
    D = parts.forward(jnp.zeros_like(parts.C), moved + moved.transpose(0, 2, 1) + wider)
    L = parts.R @ E + gamma * (B.T @ parts.P_next @ B @ E + B.T @ P @ parts.C)
    gain = -2 * (jnp.einsum("tij,tjk->ik", L, parts.D) + jnp.einsum("tij,tjk->ik", parts.L, D))
    deeper = gamma * jnp.einsum("ji,tjk,ki->ti", B, P, B)
    changed = 2 * e * jnp.einsum("t,ti->i", parts.w, parts.action_curvature()) + jnp.einsum("t,ti->i", parts.w, deeper)
    return LinearGaussian(gain, -2 * covariance * changed)


@partial(jax.jit, static_argnames="system")
def control_hessian(system: LinearQuadratic, policy: LinearGaussian) -> Float[Array, "parameter parameter"]:
    """∇²J, dense, the parameters in the order of `jax.flatten_util.ravel_pytree`: K row by row, then ℓ."""
    flat, unravel = ravel_pytree(policy)

    def column(direction: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        return ravel_pytree(control_hessian_product(system, policy, unravel(direction)))[0]

    return jax.vmap(column)(jnp.eye(flat.size))


@partial(jax.jit, static_argnames=("system", "discounted"))
def control_fisher(
    system: LinearQuadratic, policy: LinearGaussian, *, discounted: bool = True
) -> Float[Array, "parameter parameter"]:
    """Σ_t c_t E[∇ ln π ∇ ln πᵀ], in the order of `control_hessian`: Σ⁻¹ ⊗ Σ_t c_t E[s sᵀ] and 2 Σ_t c_t.

    c_t = γ^t, or 1 if not `discounted`, as estimators have it that count every step of an episode alike.
    """
    visits, steps = _visits(system, policy, discounted)
    of_gain = jnp.kron(jnp.diag(jnp.exp(-2 * policy.log_std)), visits)
    of_std = 2 * steps * jnp.eye(system.actions)
    return jax.scipy.linalg.block_diag(of_gain, of_std)


@partial(jax.jit, static_argnames=("system", "discounted"))
def control_natural_gradient(
    system: LinearQuadratic, policy: LinearGaussian, *, discounted: bool = True
) -> LinearGaussian:
    """F⁻¹ ∇J = (Σ ∂J/∂K X⁻¹, ∂J/∂ℓ / 2 Σ_t c_t), X = Σ_t c_t E[s sᵀ]; for an infinite horizon −2 Σ L."""
    gradient = control_gradient(system, policy)
    visits, steps = _visits(system, policy, discounted)
    gain = jnp.exp(2 * policy.log_std)[:, None] * jnp.linalg.solve(visits, gradient.gain.T).T
    return LinearGaussian(gain, gradient.log_std / (2 * steps))


def riccati_gains(system: LinearQuadratic) -> Matrices:
    """The best gain of each step [time, action, state], and for an infinite horizon the one of all [1, action, state].

    ::

        K_t = −γ (R + γ Bᵀ P_{t+1} B)⁻¹ Bᵀ P_{t+1} A
        P_t = Q + γ Aᵀ P_{t+1} (A + B K_t),   P_H = 0
    """
    A, B, gamma = system.dynamics, system.control, system.discount
    P, gains = np.zeros_like(A), []
    for _ in range(100_000 if system.infinite else system.horizon):
        gain = -gamma * np.linalg.solve(system.action_cost + gamma * B.T @ P @ B, B.T @ P @ A)
        before, P = P, system.state_cost + gamma * A.T @ P @ (A + B @ gain)
        gains.append(gain)
        if system.infinite and np.max(np.abs(P - before)) <= 1e-14 * max(1.0, float(np.max(np.abs(P)))):
            break
    return jnp.asarray(np.stack(gains[-1:] if system.infinite else gains[::-1]), float)


def best_gain(system: LinearQuadratic, iterations: int = 50) -> Matrix:
    """The best of the gains that stay the same over time, which a policy without a clock can have.

    For an infinite horizon it is Riccati's. For a finite one Newton's method on J finds it from Riccati's first, each
    step halved until J grows; the noise, and with it ℓ, plays a part in it.
    """
    first = riccati_gains(system)[0]
    if system.infinite:
        return first
    silent = jnp.full(system.actions, -jnp.inf)

    def climb(gain: Matrix) -> Matrix:
        policy = LinearGaussian(gain, silent)
        size = gain.size
        hessian = control_hessian(system, policy)[:size, :size]
        # Where −∇²J is not positive definite, its eigenvalues' magnitudes still give an ascent direction.
        values, vectors = jnp.linalg.eigh(-hessian)
        gradient = control_gradient(system, policy).gain.ravel()
        step = (vectors @ ((vectors.T @ gradient) / jnp.maximum(jnp.abs(values), 1e-12))).reshape(gain.shape)
        lengths = 0.5 ** jnp.arange(20)
        scores = jax.vmap(lambda length: control_return(system, LinearGaussian(gain + length * step, silent)))(lengths)
        better = control_return(system, policy) < jnp.max(scores)
        return jnp.where(better, gain + lengths[jnp.argmax(scores)] * step, gain)

    return jax.lax.fori_loop(0, iterations, lambda _, gain: climb(gain), first)


class _Parts(NamedTuple):
    """What all the formulas are made of; see the module's first lines."""

    infinite: bool
    gamma: float
    B: Matrix
    Q: Matrix
    R: Matrix
    C: Matrix
    w: Float[Array, " time"]
    D: Matrices
    P_next: Matrices
    L: Matrices

    @classmethod
    def of(cls, system: LinearQuadratic, policy: LinearGaussian) -> "_Parts":
        _check_shapes(system, policy)
        A, B, Q, R, W, S, m = (
            jnp.asarray(part, float)
            for part in (
                system.dynamics,
                system.control,
                system.state_cost,
                system.action_cost,
                system.noise,
                system.start_covariance,
                system.start_mean,
            )
        )
        gamma, steps = system.discount, 1 if system.infinite else system.horizon
        w = jnp.full(1, 1 / (1 - gamma)) if system.infinite else jnp.asarray(gamma ** np.arange(steps), float)
        C = A + B @ policy.gain
        empty = jnp.zeros((steps, *C.shape))
        parts = cls(system.infinite, gamma, B, Q, R, C, w, empty, empty, empty)
        spread = (B * jnp.exp(2 * policy.log_std)) @ B.T + W
        D = parts.forward(S + jnp.outer(m, m), gamma * w[:, None, None] * spread)
        cost = Q + policy.gain.T @ R @ policy.gain
        P_next = parts.backward(jnp.broadcast_to(cost, empty.shape))
        L = R @ policy.gain + gamma * B.T @ P_next @ C
        return parts._replace(D=D, P_next=P_next, L=L)

    def forward(self, initial: Matrix, source: Matrices) -> Matrices:
        """X_0 = initial, X_{t+1} = γ C X_t Cᵀ + source_t, for t < H; infinitely many: their sum."""
        if self.infinite:
            return _discounted_sum(self.gamma, self.C, initial + source[0])[None]

        def advance(X: Matrix, source: Matrix) -> tuple[Matrix, Matrix]:
            return self.gamma * self.C @ X @ self.C.T + source, X

        return jax.lax.scan(advance, initial, source)[1]

    def backward(self, source: Matrices) -> Matrices:
        """Y_{t+1} for t < H, of Y_t = source_t + γ Cᵀ Y_{t+1} C, Y_H = 0; infinitely many: the constant Y."""
        if self.infinite:
            return _discounted_sum(self.gamma, self.C.T, source[0])[None]

        def back_up(Y: Matrix, source: Matrix) -> tuple[Matrix, Matrix]:
            return source + self.gamma * self.C.T @ Y @ self.C, Y

        return jax.lax.scan(back_up, jnp.zeros_like(self.C), source, reverse=True)[1]

    def action_curvature(self) -> Float[Array, "time action"]:
        """diag (R + γ Bᵀ P_{t+1} B)."""
        return jnp.diag(self.R) + self.gamma * jnp.einsum("ji,tjk,ki->ti", self.B, self.P_next, self.B)


def _discounted_sum(gamma: float, C: Matrix, source: Matrix) -> Matrix:
    """Σ_t γ^t C^t source (Cᵀ)^t, the X with X = source + γ C X Cᵀ."""
    system = jnp.eye(source.size) - gamma * jnp.kron(C, C)
    return jnp.linalg.solve(system, source.ravel()).reshape(source.shape)


def _visits(system: LinearQuadratic, policy: LinearGaussian, discounted: bool) -> tuple[Matrix, Array]:
    """Σ_t c_t E[s_t s_tᵀ] and Σ_t c_t."""
    if not discounted and system.infinite:
        raise wrong("discounted", False, "accepted is True for an infinite horizon, whose steps cannot be counted")
    parts = _Parts.of(system, policy)
    weights = jnp.ones_like(parts.w) if discounted else 1 / parts.w
    return jnp.einsum("t,tij->ij", weights, parts.D), jnp.sum(weights * parts.w)


def _check_shapes(system: LinearQuadratic, policy: LinearGaussian) -> None:
    for name, array, shape in (
        ("gain", policy.gain, (system.actions, system.states)),
        ("log_std", policy.log_std, (system.actions,)),
    ):
        if array.shape != shape:
            raise wrong(f"{name}.shape", array.shape, f"accepted is {shape}")
