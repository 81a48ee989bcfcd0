"""Engines that count wrongly: every logit is right, and one number that the engine reads of itself is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evseq.engines.protocol import Probe
from evseq.engines.reference.session import ReferenceSession
from planted.faults import planted


@planted("full")
@dataclass(kw_only=True)
class length_short(ReferenceSession):  # noqa: N801 - named as the target is
    """The last row is told one token shorter than it is."""

    def probe(self) -> Probe:
        probe = super().probe()
        return replace(probe, lengths=(*probe.lengths[:-1], probe.lengths[-1] - 1))


@planted("full")
@dataclass(kw_only=True)
class position_ahead(ReferenceSession):  # noqa: N801
    """The last row's next position is told one too high."""

    def probe(self) -> Probe:
        probe = super().probe()
        return replace(probe, next_positions=(*probe.next_positions[:-1], probe.next_positions[-1] + 1))


@planted("full")
@dataclass(kw_only=True)
class sees_itself(ReferenceSession):  # noqa: N801
    """The second layer counts the query itself among the visible tokens."""

    def probe(self) -> Probe:
        probe = super().probe()
        first, second, *rest = probe.visible
        return replace(probe, visible=(first, tuple(count + 1 for count in second), *rest))


@planted("full")
@dataclass(kw_only=True)
class bytes_of_keys(ReferenceSession):  # noqa: N801
    """Only the keys are counted, so half the bytes."""

    def probe(self) -> Probe:
        probe = super().probe()
        return replace(probe, cache_bytes=probe.cache_bytes // 2)


@planted("full")
@dataclass(kw_only=True)
class one_row_told(ReferenceSession):  # noqa: N801
    """The probe knows of the first row only."""

    def probe(self) -> Probe:
        probe = super().probe()
        visible = tuple(layer[:1] for layer in probe.visible)
        return replace(probe, lengths=probe.lengths[:1], next_positions=probe.next_positions[:1], visible=visible)
