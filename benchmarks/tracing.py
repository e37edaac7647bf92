"""Causal tracing in shared passes against a pass of its own for every state that is put back.

    python -m benchmarks.tracing --facts 6

CPU seconds of one process on known facts of the bundled model's sample, the routes in turn, after a
warm-up; and the largest difference in a probability, which is rounding. The other route does what
the published script does: a pass of the whole model for each token and layer, with all noises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.together import timed
from edit_harness import Request
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness_plugins.commands.studies.trace import patching
from edit_harness_plugins.commands.studies.trace.patching import Fact, Method, Traced


@click.command()
@click.option("--facts", "count", type=click.IntRange(1), default=6, show_default=True)
@click.option("--samples", type=click.IntRange(1), default=10, show_default=True)
def main(count: int, samples: int) -> None:
    """Time both routes and print their ratio, for each kind of state."""
    torch.set_num_threads(1)
    plugins = Plugins.installed()
    model = assembly.load(plugins, "pocket", device="cpu")
    cases = assembly.make_benchmark(plugins, "counterfactplus", {}, model.source).cases
    requests = [case.requests[0] for case in cases[:count]]
    facts = [Fact.of(model, Request(r.prompt, r.subject, r.target_true)) for r in requests]
    list(patching.trace(model, facts[:1], Method(samples=1)))  # so that none is the first
    print("| states | one by one, s | shared, s | ratio | difference |\n|---|---|---|---|---|")
    for kind in patching.KINDS:
        method = Method(
            (kind,), patching.default_window(model.architecture.layers), samples=samples
        )
        print(f"| {kind} | {compared(model, facts, method)} |", flush=True)


def compared(model: Model, facts: Sequence[Fact], method: Method) -> str:
    """Return the cells of a method."""
    alone, slow = timed(lambda: [one_by_one(model, fact, method) for fact in facts])
    shared, quick = timed(lambda: list(patching.trace(model, facts, method)))
    apart = max(difference(one, other) for one, other in zip(alone, shared, strict=True))
    return f"{slow:.2f} | {quick:.2f} | {slow / quick:.1f} | {apart:.1e}"


def difference(one: Traced, other: Traced) -> float:
    """Return the largest difference of two traces' probabilities."""
    pairs = [(one.clean, other.clean), (one.noised, other.noised)]
    pairs += [(one.restored[kind], other.restored[kind]) for kind in one.restored]
    return max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs)


@torch.no_grad()
def one_by_one(model: Model, fact: Fact, method: Method) -> Traced:
    """Trace a fact with a pass of the whole model for each kind, token and layer."""
    module: Any = model.module
    width = module.get_input_embeddings().embedding_dim
    added = method.noise * patching.spread(model) * patching.noise(fact, method, width)
    # Modules are looked for by a pass of the model, so before anything is hooked.
    sites = patching.sites(model, method.kinds, 1)
    names = {kind: [s.modules[0] for s in sites if s.kind == kind] for kind in method.kinds}
    clean: dict[str, Tensor] = {}
    with ExitStack() as stack:
        for name, part in module.named_modules():
            stack.enter_context(
                _hooked(part, lambda out, name=name: clean.update({name: out.clone()}))
            )
        known = _probabilities(model, fact, 1)[0]

    def noising(out: Tensor) -> Tensor:
        changed = out.clone()
        changed[:, fact.subject.start : fact.subject.stop] += added.to(out)
        return changed

    with _hooked(module.get_input_embeddings(), noising):
        noised = _probabilities(model, fact, method.samples)
        put = partial(_put_back, model, fact, method.samples, clean)
        tokens, layers = range(len(fact.parts.prompt)), range(model.architecture.layers)
        wide = dict.fromkeys(method.kinds, method.window) | {"hidden": 1}
        restored = {
            kind: np.array([[put(names[kind], wide[kind], t, at) for at in layers] for t in tokens])
            for kind in method.kinds
        }
    ordered = {kind: values.transpose(2, 0, 1) for kind, values in restored.items()}
    return Traced(fact, float(known), noised, ordered)


def _put_back(
    model: Model,
    fact: Fact,
    samples: int,
    clean: dict[str, Tensor],
    names: Sequence[str],
    wide: int,
    token: int,
    layer: int,
) -> np.ndarray:
    """Return the probabilities under each noise with a token's states of the clean run."""
    span = range(max(0, layer - wide // 2), min(len(names), layer - (-wide // 2)))

    def putting(before: Tensor, out: Tensor) -> Tensor:
        changed = out.view(samples, -1, out.shape[-1]).clone()
        changed[:, token] = before.view(-1, out.shape[-1])[token]
        return changed.view_as(out)

    with ExitStack() as stack:
        for at in span:
            part = model.module.get_submodule(names[at])
            stack.enter_context(_hooked(part, partial(putting, clean[names[at]])))
        return _probabilities(model, fact, samples)


def _probabilities(model: Model, fact: Fact, rows: int) -> np.ndarray:
    """Return the probability of the fact's target in rows that differ by hooks only."""
    ids = torch.tensor([fact.parts.inputs] * rows, device=model.device)
    logits = model.module(input_ids=ids, use_cache=False).logits
    found = logits[:, list(fact.parts.places)].log_softmax(-1)
    wanted = torch.tensor(fact.parts.target, device=found.device)[None, :, None].expand(rows, -1, 1)
    return found.gather(2, wanted)[..., 0].double().sum(1).exp().cpu().numpy()


@contextmanager
def _hooked(module: nn.Module, change: Any) -> Iterator[None]:
    """Give a function a module's output, and let what it returns, if anything, replace it."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        tensor = output[0] if isinstance(output, tuple) else output
        if not isinstance(tensor, Tensor) or (changed := change(tensor)) is None:
            return None
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


if __name__ == "__main__":
    main()
