"""The plans of a program's rules, in the order of evaluation; and which of them a stream cannot bear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ensue.errors import QueryTypeError
from ensue.events.schema import Schema
from ensue.planning.rules import Extent, Optimizations, RulePlan, plan_rule
from ensue.rules.check import check_program
from ensue.rules.lowering import lower
from ensue.rules.program import Program
from ensue.rules.signatures import Signature
from ensue.rules.strata import stratify


def plan_program(
    program: Program,
    schema: Schema,
    optimizations: Optimizations = Optimizations(),  # noqa: B008  (immutable)
) -> tuple[dict[str, Signature], dict[str, list[RulePlan]]]:
    """The attributes of all events, and the plans of each derived type's rules, types in the order of evaluation."""
    signatures = check_program(program, schema)
    point = Extent(0, 0) if schema.begin is None else Extent()
    extents = dict.fromkeys({event.name for event in program.events}.difference(program.derived), point)
    plans: dict[str, list[RulePlan]] = {}
    for name, rules in stratify(program):
        own = [plan_rule(lower(rule, signatures, schema), extents, None, optimizations) for rule in rules]
        plans[name] = own
        longest = [plan.extent.most for plan in own if plan.is_possible]
        known = [most for most in longest if most is not None]
        least = min((plan.extent.least for plan in own), default=0)
        extents[name] = Extent(least, max(known, default=0) if len(known) == len(longest) else None)
    return signatures, plans


def require_bounded(plans: Mapping[str, Sequence[RulePlan]]) -> None:
    """Refuse a rule that would keep events of a stream for ever."""
    for name, own in plans.items():
        for plan in own:
            if plan.is_possible and plan.unbounded is not None:
                raise QueryTypeError(
                    f"rule `{name}` would keep events for ever, and a stream has no end: {plan.unbounded}",
                    hint="bound it, such as `o BEFORE s BY < 1h` or `{o, s} WITHIN 1h`, or allow it: "
                    "Options(unbounded_rules=True), --unbounded-rules",
                    span=plan.body.rule.span,
                    source=plan.body.rule.source,
                    query=name,
                )
