"""Whether a text is the address of another machine. No name is looked up, and nothing is connected to."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def elsewhere(text: str) -> bool:
    """Tell whether a text is an address, and not plainly one of this machine.

    An address is what has ``://`` in it. Of this machine are localhost and loopback addresses in
    their usual spelling; a name that leads back here by other means is not known to do so.
    """
    if "://" not in text:
        return False
    if not text.isprintable():  # readers do not agree on what to leave out
        return True
    try:
        host = (urlsplit(text).hostname or "").rstrip(".")
        return host != "localhost" and not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
