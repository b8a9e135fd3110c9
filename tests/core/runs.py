"""Runs at some moment: trained, or moved by chance, which compiles no step.

Most pictures only need something to show.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core.gp.model import Bound, DeepGP
from dgp_core.live.run import Run
from dgp_core.training.optimise import TrainState


def trained(run: Run, steps: int) -> Run:
    """A run after some steps, without the picture that `prepare` compiles."""
    run._make_start()
    run.status = "ready"
    run.advance()
    run.step(steps)
    run.advance()
    assert run.status == "ready" and run.latest is not None and run.latest.step == steps
    return run


def elsewhere(model: DeepGP, rng: np.random.Generator, far: float) -> DeepGP:
    """The model at other parameters: each changes by a share of itself, and q(u)'s means at all."""
    model = jax.tree.map(
        lambda leaf: jnp.asarray(leaf * (1 + far * rng.standard_normal(leaf.shape)), leaf.dtype),
        jax.tree.map(np.asarray, model),
    )
    layers = [
        replace(
            layer,
            q_mean=jnp.asarray(
                np.asarray(layer.q_mean) + 3 * far * rng.standard_normal(layer.q_mean.shape),
                layer.q_mean.dtype,
            ),
        )
        for layer in model.layers
    ]
    return replace(model, layers=tuple(layers))


def by_chance(state: TrainState, rows, spec, n_steps, n_data=None, far=0.01):
    """In the place of `train_chunk`: so many steps that lead anywhere."""
    step, L = int(state.step), len(state.model.layers)
    if n_steps:
        moved = elsewhere(state.model, np.random.default_rng(step), far)
        state = replace(state, model=moved, step=jnp.asarray(step + n_steps, state.step.dtype))
    steps = step + np.arange(n_steps)
    return state, Bound(-100.0 / (1 + 0.01 * steps), np.full((n_steps, L), 1.5))


def moved(run: Run, steps: int) -> Run:
    """A run after so many steps that led anywhere; 0 leaves it at its start."""
    run._make_start()
    run.status = "ready"
    run.advance()
    if steps:
        states = run._states
        assert states is not None
        pairs = [by_chance(s, None, None, steps, far=0.2) for s in run._distinct(states)]
        run._states = (pairs[0][0], pairs[-1][0])
        for record, (_, bound) in zip(run._records, (pairs[0], pairs[-1]), strict=True):
            record.append(bound)
        run._publish(run._states)
    assert run.status == "ready" and run.latest is not None and run.latest.step == steps
    return run
