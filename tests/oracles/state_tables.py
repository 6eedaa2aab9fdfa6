"""Reads many versions of state tables with one independent reader and compares all rows.

Takes a JSON file with a list of cases, each {"warehouse", "table", "tag", "snapshot", "columns",
"keys", "rows"}: the columns begin with the key group, the rows are lists of values in the order of
the columns. Each version is read as a whole and with predicates on the key group, on the key and
on both. Prints one JSON object that says how much was compared; ends with code 1 and the
difference otherwise.

Readers: `pypaimon` (Python), `paimon-rust` (crate paimon, by way of its Python package) and
`paimon-cpp` (by way of a DuckDB extension). Ends with code 3 when the reader is not installed.
"""

import argparse
import collections
import contextlib
import datetime
import glob
import io
import json
import os
import random
import sys
from unittest import mock

EPOCH = datetime.datetime(1970, 1, 1)
NOT_INSTALLED = 3


def plain(value):
    """A value as it is written in the cases."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value


class Pypaimon:
    """By tag, and by number while the snapshot is there."""

    def __init__(self):
        import pypaimon
        import state_table

        self.catalogs = pypaimon.CatalogFactory
        self.read_table = state_table.read

    def read(self, case, conditions):
        table = self.catalogs.create({"warehouse": case["warehouse"]}).get_table(case["table"])
        if case.get("tag"):
            table = table.copy({"scan.tag-name": case["tag"]})
        elif case.get("snapshot"):
            table = table.copy({"scan.snapshot-id": str(case["snapshot"])})
        return self.read_table(table, case["columns"], conditions)


def sql(source, case, conditions):
    """The query for rows under all these (column, values) conditions."""

    def literal(value):
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    tests = [f'"{name}" IN ({", ".join(map(literal, values))})' for name, values in conditions]
    columns = ", ".join(f'"{name}"' for name in case["columns"])
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {columns} FROM {source}{where}"


class PaimonRust:
    """By tag or number."""

    def __init__(self):
        from pypaimon_rust.datafusion import SQLContext

        self.contexts = SQLContext

    def read(self, case, conditions):
        context = self.contexts()
        context.register_catalog("paimon", {"warehouse": case["warehouse"]})
        version = f"'{case['tag']}'" if case.get("tag") else case.get("snapshot")
        at = f" VERSION AS OF {version}" if version else ""
        batches = context.sql(sql(f"paimon.{case['table']}{at}", case, conditions))
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


class PaimonCpp:
    """By number only: cases with a tag whose snapshot is gone are left out."""

    def __init__(self):
        os.environ.setdefault("VANE_RUNNER", "local-fast")
        # Half a gigabyte that only clusters need.
        sys.modules.setdefault("ray", mock.MagicMock())
        import vane

        pattern = "vane_extensions/paimon_*/paimon.duckdb_extension"
        found = [path for root in sys.path for path in glob.glob(os.path.join(root, pattern))]
        if not found:
            raise ImportError("the extension for Paimon is missing")
        self.connection = vane.connect(config={"allow_unsigned_extensions": "true"})
        self.connection.execute(f"LOAD '{found[0]}'")

    def read(self, case, conditions):
        database, table = case["table"].split(".")
        at = f", snapshot_from_id={case['snapshot']}" if case.get("snapshot") else ""
        source = f"paimon_scan('{case['warehouse']}', '{database}', '{table}'{at})"
        return self.connection.execute(sql(source, case, conditions)).fetchall()


READERS = {"pypaimon": Pypaimon, "paimon-rust": PaimonRust, "paimon-cpp": PaimonCpp}


def conditions_to_try(case, count):
    """Conditions on the key group, the key and both, on values that occur and on some that don't."""
    chance = random.Random(len(case["rows"]))
    position = {name: index for index, name in enumerate(case["columns"])}
    rows = case["rows"]
    for row in chance.sample(rows, min(count, len(rows))):
        group = ("kg", [row[0]])
        key = [(name, [row[position[name]]]) for name in case["keys"]]
        yield [group]
        yield key
        yield [group, *key]
        # Another group: nothing can match both.
        yield [("kg", [(row[0] + 1) % 64]), *key]
    for name in case["keys"] if rows else []:
        values = [row[position[name]] for row in chance.sample(rows, min(20, len(rows)))]
        yield [(name, sorted(set(values)))]


def compare(what, case, got, expected):
    """Ends the process if the two multisets differ."""
    got = collections.Counter(tuple(map(plain, row)) for row in got)
    expected = collections.Counter(tuple(row) for row in expected)
    if got == expected:
        return
    missing, extra = expected - got, got - expected
    version = case.get("tag") or case.get("snapshot")
    sys.exit(
        f"{what} of {case['warehouse']} {case['table']} at {version}: "
        f"{sum(missing.values())} rows are missing, {sum(extra.values())} are too many; "
        f"missing {list(missing)[:3]}, too many {list(extra)[:3]}"
    )


def check(reader, case, predicates):
    """Reads one version in every way; returns how many reads it were."""
    compare("all rows", case, reader.read(case, []), case["rows"])
    position = {name: index for index, name in enumerate(case["columns"])}
    count = 1
    for conditions in conditions_to_try(case, predicates):
        matching = [
            row
            for row in case["rows"]
            if all(row[position[name]] in values for name, values in conditions)
        ]
        compare(f"rows where {conditions}", case, reader.read(case, conditions), matching)
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", help="JSON file")
    parser.add_argument("--reader", choices=READERS, required=True)
    parser.add_argument("--predicates", type=int, default=1, help="rows to look up")
    arguments = parser.parse_args()

    # Readers talk; only the result goes to the output.
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            reader = READERS[arguments.reader]()
        except ImportError as error:
            print(f"{arguments.reader} is not installed: {error}", file=sys.stderr)
            sys.exit(NOT_INSTALLED)
        with open(arguments.cases, encoding="utf-8") as file:
            cases = json.load(file)
        reads = sum(check(reader, case, arguments.predicates) for case in cases)
    rows = sum(len(case["rows"]) for case in cases)
    print(json.dumps({"versions": len(cases), "rows": rows, "reads": reads}))


if __name__ == "__main__":
    main()
