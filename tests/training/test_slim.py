"""Compiled programs without the bodies of their fusions: as light as said, and the same numbers."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import serialize_executable

from dgp_core.training.compile_cache import without_cache
from dgp_core.training.slim import slim


def everything(A: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Fusions of many kinds: in place and not, of several results, in loops and branches."""

    def body(i, carry):
        A, record = carry
        key = jax.random.fold_in(jax.random.key(0), i)
        B = jnp.tanh(A) + 0.1 * jnp.exp(-(A**2)) * jax.random.normal(key, A.shape)
        L = lax.linalg.cholesky(B @ B.T + jnp.eye(len(A)))
        A = lax.cond(i % 2 == 0, lambda: jnp.sin(L) * B, lambda: jnp.cos(L) / (1 + B**2))
        return A, record.at[i].set(jnp.log1p(jnp.abs(A)).sum())

    A, record = lax.fori_loop(0, n, body, (A, jnp.zeros(8)))
    return A[::-1] * record.max(), jnp.where(record > 1, jnp.sqrt(record), record)


@pytest.fixture(scope="module")
def compiled():
    arguments = jnp.linspace(-1, 1, 32**2).reshape(32, 32), jnp.asarray(5)
    with without_cache():
        return jax.jit(everything).lower(*arguments).compile(), arguments


def test_a_slim_program_gives_the_same_bits(compiled):
    whole, arguments = compiled
    payload, *trees = serialize_executable.serialize(whole)
    light = slim(payload)
    assert len(light) < len(payload)
    loaded = serialize_executable.deserialize_and_load(light, *trees)
    for ours, theirs in zip(loaded(*arguments), whole(*arguments), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert slim(light) == light


def test_fusions_lose_their_bodies_and_those_in_place_do_not(compiled):
    payload, *trees = serialize_executable.serialize(compiled[0])

    def hlo(payload):
        loaded = serialize_executable.deserialize_and_load(payload, *trees)
        return loaded.runtime_executable().hlo_modules()[0].to_string()

    before, after = hlo(payload), hlo(slim(payload))
    assert "exponential(" in before and "exponential(" not in after
    assert before.count("dynamic-update-slice(") == after.count("dynamic-update-slice(") > 0
    assert before.count(" fusion(") == after.count(" fusion(")
    assert before.count("kind=kCustom") == after.count("kind=kCustom") > 0
    assert before.count(" dot(") == after.count(" dot(") > 0


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps(("exec", b"no message" * 50)),
        pickle.dumps(("exec", bytes(300))),
        pickle.dumps(("exec", b"\xff" * 300)),
        # A computation whose one instruction has no opcode.
        pickle.dumps(("exec", bytes.fromhex("000a0a0a080a061a0412021800") * 30)),
        pickle.dumps("nothing"),
        b"no pickle",
        b"",
    ],
)
def test_what_has_another_form_stays_as_it_is(payload):
    assert slim(payload) == payload
