"""One run of a sequence under NEXT or STRICT: which variable takes an event, without branching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ensue.events.schema import Schema
from ensue.pattern.expressions import Aggregate, At, Attribute, Expression, variables_of, walk
from ensue.pattern.query import Item
from ensue.testing.evaluation import Bound, holds
from ensue.testing.values import Event


@dataclass(frozen=True, slots=True)
class Run:
    """The events that the items of a sequence have taken so far; the last of `taken` may still be open."""

    items: tuple[Item, ...]  # the positive ones
    conjuncts: tuple[Expression, ...]
    schema: Schema
    taken: tuple[tuple[Event, ...], ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """All events taken, in order."""
        return tuple(event for events in self.taken for event in events)

    @property
    def is_full(self) -> bool:
        """Whether the last item has all that it can take."""
        return len(self.taken) == len(self.items) and not self._has_room(len(self.items) - 1)

    def take_first(self, event: Event) -> Run | None:
        """The run that an event begins, or None if it cannot be the first."""
        return self._take(0, event)

    def offer(self, event: Event) -> Run | None:
        """The run with one more event, or None if no item can take it."""
        return self._offer_at(len(self.taken) - 1, event)

    def _offer_at(self, place: int, event: Event) -> Run | None:
        """The event offered at an item: to what follows if the item has its minimum, else as one more of its own."""
        if place >= len(self.items):
            return None
        if self._has_minimum(place):
            following = self._offer_at(place + 1, event)
            if following is not None:
                return following
        return self._take(place, event) if self._has_room(place) else None

    def _take(self, place: int, event: Event) -> Run | None:
        """The run in which the item at `place` takes the event; items that are passed over stay empty."""
        if event.type != self.items[place].type:
            return None
        own = self.taken[place] if place < len(self.taken) else ()
        passed = ((),) * (place - len(self.taken))
        longer = replace(self, taken=(*self.taken[:place], *passed, (*own, event)))
        return longer if longer._holds(closed=place) else None

    def may_end(self) -> bool:
        """Whether the run is a match if it takes no more events: the rest may be empty and all lists are closed."""
        return all(self._has_minimum(place) for place in range(len(self.items))) and self._holds(closed=len(self.items))

    def bound(self) -> dict[str, Bound]:
        """The variables of the whole sequence as they stand."""
        return self._bound_to(len(self.items))

    def _bound_to(self, count: int) -> dict[str, Bound]:
        bound: dict[str, Bound] = {}
        for place, item in enumerate(self.items[:count]):
            events = self.taken[place] if place < len(self.taken) else ()
            bound[item.variable] = events if item.quantifier is not None else events[0]
        return bound

    def _holds(self, closed: int) -> bool:
        """Whether the conjuncts over the bound variables hold, those on a whole list once it is before `closed`."""
        bound: Mapping[str, Bound] = self._bound_to(max(closed, len(self.taken)))
        complete = {item.variable for item in self.items[:closed]}
        return all(
            holds(conjunct, bound, self.schema)
            for conjunct in self.conjuncts
            if variables_of(conjunct) <= bound.keys() and _whole_lists(conjunct) <= complete
        )

    def _has_minimum(self, place: int) -> bool:
        quantifier = self.items[place].quantifier
        count = len(self.taken[place]) if place < len(self.taken) else 0
        return count >= (1 if quantifier is None else quantifier.minimum)

    def _has_room(self, place: int) -> bool:
        quantifier = self.items[place].quantifier
        count = len(self.taken[place]) if place < len(self.taken) else 0
        maximum = 1 if quantifier is None else quantifier.maximum
        return maximum is None or count < maximum


def _whole_lists(conjunct: Expression) -> frozenset[str]:
    """The variables whose list a conjunct speaks of as a whole."""
    return frozenset(
        node.variable
        for node in walk(conjunct)
        if isinstance(node, Aggregate) or (isinstance(node, Attribute) and node.at in (At.FIRST, At.LAST))
    )
