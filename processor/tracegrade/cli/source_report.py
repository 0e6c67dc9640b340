"""Says what of the files of a command was not read, on standard error."""

import sys

from tracegrade.cli.output import EXIT_CANNOT_TELL, print_line
from tracegrade.display import json_text
from tracegrade.otlp.files.report import SourceReport


def print_source_report(report: SourceReport, output_format: str) -> None:
    """Print a line for each file of which something was not read, and of files of several formats, which is which.

    Where nothing of a trace was read of any, one line says so, with the reason of each file.

    With `output_format` json, a line is the object of a file: ``{file, read_as, not_read, problems, repaired_texts,
    message}``.
    """
    if output_format == "json":
        for file in report.with_remarks:
            print_line(json_text(file.to_json()), err=True)
    elif not report.nothing_read:
        for line in report.warnings:
            print_line(f"Warning: {line}", err=True)
        for line in report.format_lines:
            print_line(line, err=True)
    if report.nothing_read:
        print_line(f"Error: {report.nothing_read}", err=True)


def end_if_nothing_read(report: SourceReport) -> None:
    """End with exit code 3 where the files of a command hold nothing of a trace."""
    if report.nothing_read:
        sys.exit(EXIT_CANNOT_TELL)
