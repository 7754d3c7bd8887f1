"""Prints rows of a Parquet file as JSON lines: ``kha parquet FILE --column NAME [--column NAME]``.

The preparation of text (``kha data prepare``, ``kha train``) starts it and reads its output; it can
be called by hand to look into a file. Reads one batch of rows at a time, so memory does not grow
with the file. Stands alone: importing it loads neither torch nor the operators.
"""

import argparse
import json
import sys

ROWS_AT_ONCE = 256


class ParquetError(Exception):
    """Bad input, said in whole sentences."""


def open_file(path):
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ParquetError(
            "reading Parquet needs the package pyarrow, which this Python does not have "
            f"({error}); install it: {sys.executable} -m pip install pyarrow"
        ) from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ParquetError(f"{path} cannot be read as Parquet: {error}") from error


def check_columns(file, path, columns):
    names = file.schema_arrow.names
    for column in columns:
        if column not in names:
            raise ParquetError(
                f"{path} has no column `{column}`; it has {', '.join(names)}; "
                "name the text's column: --set data.text_key=NAME"
            )


def write_rows(file, path, columns, out):
    """One object a row, null where a cell is; text is written as it is, in UTF-8."""
    import pyarrow

    try:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
            for row in batch.to_pylist():
                out.write(json.dumps(row, ensure_ascii=False, default=repr) + "\n")
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise ParquetError(f"{path} is damaged: {error}") from error


def main():
    parser = argparse.ArgumentParser(prog="kha parquet", description=__doc__.splitlines()[0])
    parser.add_argument("file", help="Parquet file")
    parser.add_argument("--column", action="append", required=True, help="column to print")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        file = open_file(arguments.file)
        check_columns(file, arguments.file, arguments.column)
        write_rows(file, arguments.file, arguments.column, sys.stdout)
        sys.stdout.flush()
    except ParquetError as error:
        sys.exit(f"error: {error}")
    except BrokenPipeError:  # whoever read had enough
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
