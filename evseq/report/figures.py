"""Figures: how numbers are written for people."""

from __future__ import annotations

__all__ = ["counted", "duration", "figure"]

_MINUTE = 60


def figure(value: float | None) -> str:
    """Write a number that may have any size to two digits; `-` stands for none."""
    return "-" if value is None else f"{value:.2g}"


def duration(seconds: float | None) -> str:
    """Write seconds in the unit that keeps them short, to three digits; `-` stands for none."""
    if seconds is None:
        return "-"
    if seconds < 1e-3:  # noqa: PLR2004 - the units themselves
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else "1 s"  # noqa: PLR2004 - 1000 ms is a second
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // _MINUTE} min {int(seconds) % _MINUTE:02} s"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, as in `1 case` and `1,200 cases`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
