"""Every way in which a store of goldens fails, each its own error, at the address of the object."""

from __future__ import annotations

from evseq.cache.damage import Damage

__all__ = ["Altered", "Denied", "NotInStore", "Outage", "Silent", "Unreachable"]


class Outage(Damage):
    """The store as a whole does not serve us, whatever is asked of it. What is in the cache is used all the same."""


class Unreachable(Outage):
    """Nobody answers at the address, or not as a store does."""

    help = "check the URL and the network; with all in the cache (`evseq golden pull`) runs need neither"


class Silent(Outage):
    """A transfer began and no byte came."""

    help = "ask again, or allow more seconds: EVSEQ_GOLDEN_TIMEOUT, or golden-timeout under [tool.evseq]"


class Denied(Outage):
    """The store refuses who we say we are, or what we ask for."""

    help = "give the package of the protocol credentials that may: it reads its own environment variables and files"


class NotInStore(Damage):
    """An accepted golden is not in the store."""

    help = "`evseq golden push` where it still lies, in the goldens folder or a cache, or accept it again"


class Altered(Damage):
    """What lies at an address is not the golden that was accepted. It is not used."""

    help = "`evseq golden push` puts it back from where it still lies, in the goldens folder or a cache"
