"""Predicts a point in a worker, on a machine that a platform describes: no device is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from firsttouch.base.errors import Unsupported
from firsttouch.engine.filling import blank_record, failures_recorded, fill
from firsttouch.experiments.contract.contract import places_of
from firsttouch.records.predicted import WITHOUT_EFFECT
from firsttouch.records.schema import Party, PredictedTerm, Scalar
from firsttouch.workers.protocol import Reply

if TYPE_CHECKING:
    from firsttouch.engine.job import Job
    from firsttouch.experiments.contract.base import Experiment
    from firsttouch.model.platform import Platform
    from firsttouch.model.terms import Term


def predict_point(find: Callable[[Job], Experiment], job: Job) -> Reply:
    """The record of a prediction.

    find: returns the experiment of a job. Raises UsageError if there is none.
    """
    record, memory = blank_record(job.planned, "ok"), None
    with failures_recorded(record):
        experiment, platform = find(job), _platform(job)
        device = next(d for d in platform.devices if d.name == job.info.name)
        if reason := experiment.skip(job.point.factors, device):
            raise Unsupported(reason)
        measurement = experiment.predict(job.point, platform)
        fill(record, measurement, follows=False)
        memory = measurement.memory
        record.terms = [_predicted_term(term) for term in measurement.terms]
        record.terms += _without_effect({**experiment.without_effect, **experiment.not_followed}, job.point.factors)
        ranks = places_of(experiment, job.point.factors, device)
        record.parties = [Party(device=name, rank=rank) for rank, name in enumerate(ranks) if len(ranks) > 1]
    return Reply(state="done", record=record, memory=memory)


def _platform(job: Job) -> Platform:
    """The platform of the point's device, as the switches among its factors leave it. Raises Unsupported if its file is
    not the one that the plan was made with.
    """
    platform = _loaded(job.info.name)
    if job.info.modelled is not None and platform.digest != job.info.modelled.digest:
        raise Unsupported(f"the file of {job.info.name} was changed while the call was carried out")
    return platform.under(job.point.factors)


@cache
def _loaded(device: str) -> Platform:
    from firsttouch.model.platform import platform_of

    return platform_of(device)


def _without_effect(reasons: Mapping[str, str], factors: Mapping[str, Scalar]) -> list[PredictedTerm]:
    """A term that says on which factors of a point no prediction depends."""
    texts = [f"{name} changes no prediction: {reason}" for name, reason in reasons.items() if name in factors]
    if not texts:
        return []
    return [PredictedTerm("", WITHOUT_EFFECT, 0, 0, 0.0, 0.0, 0.0, assumptions=texts)]


def _predicted_term(term: Term) -> PredictedTerm:
    from firsttouch.model.costs import PlatformValue, assumptions

    return PredictedTerm(
        phase=term.phase,
        what=term.what,
        bytes=term.bytes,
        count=term.count,
        ms=term.ms,
        low=term.low,
        high=term.high,
        values=list(dict.fromkeys(g.name for g in term.grounds if isinstance(g, PlatformValue))),
        assumptions=assumptions(term.grounds),
    )
