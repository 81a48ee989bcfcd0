"""Joining: the rows of one session enter another."""

from __future__ import annotations

from evseq.engines.protocol import Joining, Session
from evseq.errors import EngineError

__all__ = ["joined"]


def joined(session: Session, other: Session) -> None:
    """Let the rows of `other` enter `session`. Raises EngineError where its engine declares what it cannot do."""
    if not isinstance(session, Joining):
        raise EngineError(
            f"join: a {type(session).__name__} has no `join`\n  help: give it one, or do not declare the capability"
        )
    session.join(other)
