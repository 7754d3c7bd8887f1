"""Prints rows of a Parquet file as JSON lines: ``kha parquet FILE --column NAME [--column NAME]``.

The preparation of text (``kha data prepare``, ``kha train``) starts it and reads its output; it can
be called by hand to look into a file. Reads one batch of rows at a time, so memory does not grow
with the file. Stands alone: importing it loads neither torch nor the operators.
"""

import argparse
import json
import sys

ROWS_AT_ONCE = 256
MOST_NAMES = 20
ANEW = "copy, download or write the file again"
NAME_IT = "name another column: --set data.text_key=NAME (or data.prompt_key, data.answer_key)"


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
        file = pyarrow.parquet.ParquetFile(path)
        list(file.schema_arrow.names)  # which are decoded here, as others are above
        return file
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise ParquetError(f"{path} cannot be read as Parquet: {error}; {ANEW}") from error


def shown(text):
    """Names come from the file, which must not steer the terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def is_text(kind):
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    view = getattr(types, "is_string_view", lambda _: False)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind) or view(kind)


def check_columns(file, path, columns):
    schema = file.schema_arrow
    names = schema.names
    listed = ", ".join(names[:MOST_NAMES]) + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    for column in columns:
        places = schema.get_all_field_indices(column)
        if not places:
            raise ParquetError(f"{path} has no column `{column}`; it has {listed or 'none'}; {NAME_IT}")
        if len(places) > 1:
            raise ParquetError(
                f"{path} has {len(places)} columns of the name `{column}`; "
                "write the file anew with a name for each"
            )
        kind = schema.field(places[0]).type
        if not is_text(kind):
            raise ParquetError(
                f"{path}: column `{column}` is of type {str(kind)[:80]}, and text is needed "
                f"(string); write it as text, or {NAME_IT}"
            )


def put(line, out, flush=False):
    """Trouble with the output is not the input's."""
    try:
        out.write(line)
        if flush:
            out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ParquetError(f"the rows cannot be written: {error}; free space where they go") from error


def write_rows(file, path, columns, out):
    """One object a row, null where a cell is; text is written as it is, in UTF-8."""
    import pyarrow

    number = 0
    try:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
            for place in range(batch.num_rows):
                number += 1
                row = {column: batch.column(column)[place].as_py() for column in columns}
                put(json.dumps(row, ensure_ascii=False) + "\n", out)
    except (BrokenPipeError, ParquetError):
        raise
    except UnicodeDecodeError as error:
        raise ParquetError(
            f"{path}, row {number}: text that is not UTF-8 ({error.reason}, byte {error.start} of it); "
            "write the column anew as UTF-8"
        ) from error
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise ParquetError(f"{path} is damaged behind row {number}: {error}; {ANEW}") from error


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
        put("", sys.stdout, flush=True)
    except ParquetError as error:
        sys.exit(f"error: {shown(str(error))}")
    except BrokenPipeError:  # whoever read had enough
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
