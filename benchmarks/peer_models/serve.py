"""A model in a process of its own, asked by lines of JSON: each library has its own environment.

A request names a method and its arguments; `.npz` files carry arrays. The answer to "steps" is the
seconds that they took, measured here, so that neither pipes nor other libraries are in them.
"""

import json
import os
import resource
import sys
import time

import numpy as np


def serve(model) -> None:
    """Answers requests until the pipe is closed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(answer(model, request)) + "\n")
        answers.flush()


def answer(model, request: dict) -> dict:
    """What one request asks for."""
    ask = request.pop("ask")
    if ask == "prepare":
        with np.load(request.pop("data")) as data:
            model.prepare(data["X"], data["Y"], **request)
        return {}
    if ask == "steps":
        began = time.perf_counter()
        model.steps(request["n"])
        return {"seconds": time.perf_counter() - began}
    if ask == "predict":
        with np.load(request["data"]) as data:
            mean, variance = model.predict(data["X"])
        np.savez(request["out"], mean=mean, variance=variance)
        return {}
    if ask == "parameters":
        np.savez(request["out"], **model.parameters())
        return {}
    if ask == "bound":
        with np.load(request["parameters"]) as file:
            return {"bound": model.bound(dict(file))}
    if ask == "peak":
        return {"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    raise ValueError(f"no request {ask!r}")
