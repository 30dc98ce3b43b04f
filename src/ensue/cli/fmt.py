"""`ensue fmt`: lay out query files in the one canonical way."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from ensue.cli.queries import pointing_into


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE…|-")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@click.pass_context
def fmt_command(ctx: click.Context, files: tuple[str, ...], check: bool, diff: bool) -> None:
    """Lay out query files in the one canonical way, in place.

    Comments stay, the meaning stays. With - the text is read from standard input and written to standard output.

    \b
    Examples:
      ensue fmt queries.ensue
      ensue fmt --check --diff queries/*.ensue
      echo "pattern seq(A a, B b) within 10s" | ensue fmt -
    """
    changed = [file for file in files if _format_file(file, write=not (check or diff), diff=diff)]
    if check and changed:
        for file in changed:
            click.echo(f"would change: {file}", err=True)
        ctx.exit(1)


def _format_file(file: str, *, write: bool, diff: bool) -> bool:
    """Format one file; True if its layout was not the canonical one."""
    from ensue.language import format_text

    origin = "standard input" if file == "-" else file
    try:
        before = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {origin}: {error}") from error
    with pointing_into(origin):
        after = format_text(before)
    if diff:
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), origin, origin + " (formatted)")
        click.echo("".join(lines), nl=False)
    if write:
        if file == "-":
            click.echo(after, nl=False)
        elif after != before:
            Path(file).write_text(after, encoding="utf-8")
            click.echo(f"formatted {file}", err=True)
    return after != before
