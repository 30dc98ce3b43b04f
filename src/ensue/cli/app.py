"""The `ensue` command: which subcommands there are, and what an error looks like to the shell."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ensue.errors import EnsueError, InternalError, QueryError

EXIT_BAD_INPUT = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "run": "Find the matches of queries in a file or a stream of events.",
    "live": "Find matches as events come one by one, and say how soon they are known.",
    "check": "Say whether queries are right, and where not.",
    "fmt": "Lay out query files in the one canonical way.",
    "explain": "Show how queries would be run.",
    "stats": "Measure how often a file's events come and how many pass a query's conditions.",
    "generate": "Write a made-up stream of events to a file.",
    "demo": "Run three queries over a made-up stream of trades.",
}
"""Each command with its line in `ensue --help`; the command itself is the module and function of that name."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ensue.cli.{cmd_name}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"ensue {version('ensue')}")
        except PackageNotFoundError:
            click.echo("ensue, run from its source without being installed")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """Detect patterns of events in streams.

    \b
    Examples:
      ensue demo
      ensue run "PATTERN SEQ(A a, B b) WITHIN 10s" --input events.csv
      ensue check queries.ensue
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0, 1 (input, limits), 2 (usage, query) or 130 (Ctrl-C)."""
    sys.exit(run_command(list(arguments) if arguments is not None else None))


def run_command(arguments: list[str] | None = None) -> int:
    """Run the command line and give the exit code; errors are shown on standard error, without a traceback."""
    try:
        result: Any = cli.main(args=arguments, prog_name="ensue", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing to say, and nothing more to write at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except QueryError as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_USAGE
    except InternalError:
        raise
    except EnsueError as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_BAD_INPUT
