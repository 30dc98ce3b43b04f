"""Kafka's servers: whether one of them answers, asked before Spark is, which would go on trying for minutes."""

from __future__ import annotations

import socket

from ensue.errors import InputError

_PATIENCE = 5.0  # seconds, for each server


def require_server(servers: str) -> None:
    """Refuse servers of which none can be reached; they are given as Kafka takes them, `host:9092,other:9092`.

    >>> require_server("localhost")
    Traceback (most recent call last):
    ensue.errors.InputError: no Kafka server can be reached: localhost (no port, such as localhost:9092)
    """
    tried = []
    for server in (part.strip() for part in servers.split(",") if part.strip()):
        host, _, port = server.rpartition("://")[2].rpartition(":")
        if not host or not port.isdecimal():
            tried.append(f"{server} (no port, such as {server}:9092)")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        except (OSError, OverflowError) as error:
            tried.append(f"{server} ({error})")
        else:
            return
    raise InputError(f"no Kafka server can be reached: {', '.join(tried) or 'none is given'}")
