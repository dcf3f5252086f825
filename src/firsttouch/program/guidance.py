"""Guidance: the advice and the prefetches that a driver gets for each buffer, and which buffers are device memory.

They follow from the buffer's role, or from the declarations of a published version of the application. Settings of
single buffers (`advice.NAME`, `prefetch.NAME`, `memory.NAME`) replace either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from firsttouch.program.declarations import Agent, Declaration, Role
from firsttouch.program.strategies import Strategy

NONE = "none"
READ_MOSTLY = "read-mostly"
"""The advice that is given after the initialisation, because writes to such memory are slow. Other advice is given when
the buffer is allocated."""
PREFERRED_GPU = "preferred-gpu"
SINGLE_ADVICE = (READ_MOSTLY, PREFERRED_GPU, "preferred-cpu", "accessed-by-gpu", "accessed-by-cpu")
ADVICE_PAIRS = ("preferred-cpu+accessed-by-gpu", "preferred-gpu+accessed-by-cpu", "read-mostly+preferred-gpu")
ADVICE = (NONE, *SINGLE_ADVICE, *ADVICE_PAIRS, "preferred-gpu+accessed-by-cpu+read-mostly")
"""The words for the advice of one buffer."""
ADVICE_OF, PREFETCH_OF = "advice.", "prefetch."
MEMORY_OF = "memory."
"""Prefixes of the settings of a buffer."""
ON_DEVICE, OF_STRATEGY = "device", "strategy"
"""The memory of a buffer between kernels: memory of the GPU of its own, whatever the strategy, or the strategy's."""


@dataclass(frozen=True)
class Guidance:
    """What the driver is told about one buffer.

    prefetch: to the GPU, before the first launch; to the CPU, before the results are read.
    """

    advice: tuple[str, ...] = ()
    prefetch: tuple[Agent, ...] = ()

    @classmethod
    def of(cls, advice: str = NONE, prefetch: str = NONE) -> Guidance:
        """From the words of settings, such as "preferred-gpu+accessed-by-cpu" and "gpu+cpu"."""
        return cls(_parts(advice), _parts(prefetch))  # type: ignore[arg-type]

    @property
    def at_allocation(self) -> list[str]:
        return [hint for hint in self.advice if hint != READ_MOSTLY]

    @property
    def after_initialise(self) -> list[str]:
        return [hint for hint in self.advice if hint == READ_MOSTLY]


def _parts(word: str) -> tuple[str, ...]:
    return () if word == NONE else tuple(word.split("+"))


def word_of(parts: Iterable[str]) -> str:
    """The word for advice or prefetches; the inverse of Guidance.of."""
    return "+".join(parts) or NONE


_PLACED = Guidance(("preferred-gpu", "accessed-by-cpu"), ("gpu",))
BY_ROLE: Mapping[Role, Guidance] = {
    "input": Guidance((*_PLACED.advice, READ_MOSTLY), ("gpu",)),
    "output": _PLACED,
    "inout": _PLACED,
    "constant": Guidance((READ_MOSTLY,), ("gpu",)),
    "control": Guidance(),
    "scratch": Guidance(),
    "exchange": Guidance(),
}
"""The guidance that a role implies. Buffers that end on the CPU are also prefetched to the CPU."""


def by_role(declared: Declaration) -> Guidance:
    implied = BY_ROLE[declared.role]
    if declared.advice is not None:
        implied = replace(implied, advice=declared.advice)
    return replace(implied, prefetch=(*implied.prefetch, "cpu")) if declared.ends_on == "cpu" else implied


@dataclass(frozen=True)
class Placement:
    """Where the guidance of an application's buffers comes from.

    declared: that of all buffers, by name, in place of what the roles imply; other buffers get none. settings: by name,
    such as `advice.power`. Settings apply under every strategy, the rest if the strategy advises or prefetches. memory:
    of buffers between kernels, by name, in place of what the roles imply.
    """

    declared: Mapping[str, Guidance] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=dict)

    def on_device(self, declared: Declaration) -> bool:
        """Whether a buffer is device memory of its own under every strategy."""
        if not (words := memory_words(declared)):
            return False
        published = self.memory.get(declared.name, words[0])
        return self.settings.get(MEMORY_OF + declared.name, published) == ON_DEVICE

    def of(self, declared: Declaration, strategy: Strategy) -> Guidance:
        """The guidance of one buffer under a strategy."""
        base = by_role(declared) if self.declared is None else self.declared.get(declared.name, Guidance())
        advice, prefetch = self.settings.get(ADVICE_OF + declared.name), self.settings.get(PREFETCH_OF + declared.name)
        from_settings = Guidance.of(advice or NONE, prefetch or NONE)
        return Guidance(
            base.advice if advice is None and strategy.advise else from_settings.advice,
            base.prefetch if prefetch is None and strategy.prefetch else from_settings.prefetch,
        )


BY_ITSELF = Placement()
"""What a strategy does by itself."""


def memory_words(declared: Declaration) -> tuple[str, ...]:
    """What the memory of a buffer may be, what its role implies first: of one between kernels, which starts and ends on
    the GPU. Empty for others.
    """
    ends = (declared.starts_on, declared.ends_on)
    between = declared.sides == "gpu" or (declared.sides == "both" and declared.role == "inout" and "cpu" not in ends)
    if declared.role == "exchange" or not between:
        return ()
    return (ON_DEVICE, OF_STRATEGY) if declared.role == "scratch" else (OF_STRATEGY, ON_DEVICE)


def settings_of(declared: Declaration) -> dict[str, tuple[str, ...]]:
    """The settings of a buffer, and the words that each accepts. Neither a buffer that only the CPU uses nor one of
    messages has any.
    """
    if declared.sides == "cpu" or declared.role == "exchange":
        return {}
    prefetch = (NONE, "gpu", *(("cpu", "gpu+cpu") if declared.ends_on == "cpu" else ()))
    guidance = {ADVICE_OF + declared.name: ADVICE, PREFETCH_OF + declared.name: prefetch}
    return guidance | ({MEMORY_OF + declared.name: words} if (words := memory_words(declared)) else {})
