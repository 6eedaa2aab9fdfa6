"""Reads a state table with pypaimon and compares it with the expected rows.

The expected rows are a CSV file with a header that names columns of the table; times in it are
milliseconds since the epoch. Besides the whole table, reads it with predicates on the key group,
on the key, and on both. Prints one JSON object that says how much was compared; ends with code 1
and the difference otherwise.
"""

import argparse
import collections
import csv
import datetime
import json
import random
import sys

from pypaimon import CatalogFactory

EPOCH = datetime.datetime(1970, 1, 1)


def text(value):
    """A value as it is written in the expected file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return str((value - EPOCH) // datetime.timedelta(milliseconds=1))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return str(value)


def read(table, columns, conditions=()):
    """The table's rows under all these (column, values) conditions: typed values of `columns`."""
    builder = table.new_read_builder()
    if conditions:
        predicates = builder.new_predicate_builder()
        parts = [
            predicates.equal(name, values[0]) if len(values) == 1 else predicates.is_in(name, values)
            for name, values in conditions
        ]
        builder = builder.with_filter(parts[0] if len(parts) == 1 else predicates.and_predicates(parts))
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return list(zip(*(rows[name].to_pylist() for name in columns))) if rows.num_rows else []


def compare(what, got, expected):
    """Ends the process if the two multisets differ."""
    got = collections.Counter(tuple(map(text, row)) for row in got)
    expected = collections.Counter(expected)
    if got == expected:
        return
    missing, extra = expected - got, got - expected
    sys.exit(
        f"{what}: {sum(missing.values())} rows are missing, {sum(extra.values())} are too many; "
        f"missing {list(missing)[:3]}, too many {list(extra)[:3]}"
    )


def conditions_to_try(rows, columns, keys, count):
    """Conditions on the key group, the key and both, on values that occur and on some that don't."""
    chance = random.Random(18)
    position = {name: index for index, name in enumerate(columns)}
    for row in chance.sample(rows, min(count, len(rows))):
        group = ("kg", [row[position["kg"]]])
        key = [(name, [row[position[name]]]) for name in keys]
        yield [group]
        yield key
        yield [group, *key]
        # Another group: nothing can match both.
        yield [("kg", [(row[position["kg"]] + 1) % 1024]), *key]
    for name in keys:
        values = [row[position[name]] for row in chance.sample(rows, min(20, len(rows)))]
        yield [(name, sorted(set(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("warehouse")
    parser.add_argument("table", help="database.table")
    parser.add_argument("--expected", required=True, help="CSV file with a header")
    parser.add_argument("--keys", required=True, help="names of the key columns, with commas")
    parser.add_argument("--tag", help="read this tag instead of the newest snapshot")
    parser.add_argument("--predicates", type=int, default=8, help="rows to look up")
    arguments = parser.parse_args()

    with open(arguments.expected, encoding="utf-8", newline="") as file:
        header, *expected = csv.reader(file)
    expected = [tuple(row) for row in expected]
    keys = arguments.keys.split(",")

    table = CatalogFactory.create({"warehouse": arguments.warehouse}).get_table(arguments.table)
    if arguments.tag:
        table = table.copy({"scan.tag-name": arguments.tag})

    columns = ["kg", *header]
    rows = read(table, columns)
    compare("the whole table", [row[1:] for row in rows], expected)

    count = 0
    for conditions in conditions_to_try(rows, columns, keys, arguments.predicates):
        position = {name: index for index, name in enumerate(columns)}
        matching = [
            tuple(map(text, row))
            for row in rows
            if all(row[position[name]] in values for name, values in conditions)
        ]
        compare(f"rows where {conditions}", read(table, columns, conditions), matching)
        count += 1
    print(json.dumps({"rows": len(rows), "predicates": count}))


if __name__ == "__main__":
    main()
