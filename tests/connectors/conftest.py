"""One broker for all tests of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connectors import artifacts

if TYPE_CHECKING:
    from tests.connectors.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs, where it and the connector have been fetched."""
    if not artifacts.BROKER.jars() or artifacts.find_connector() is None:
        pytest.skip("no Kafka broker or no connector is here: make test-kafka fetches them")
    from tests.connectors.broker import Broker

    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
