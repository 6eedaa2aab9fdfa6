"""Compares what pipelines put out with what DuckDB answers over the same Nexmark events.

Prints a line once it has read the events. Then it reads lines `QUERY DIRECTORY` from standard input,
and answers each with one JSON object: how many rows the NDJSON files of the directory come to, how many
the answer has, how many differ, and the first of these. Rows are a multiset. Those of a changelog are
added and removed as their kinds say.
"""

import argparse
import json
import sys
from pathlib import Path

import nexmark

# What goes beyond this is counted, and not shown.
SHOWN = 5

# Outputs that are not compared as they are: their columns, and what is made of them.
FORMS = {
    "q12": (
        {"bidder": "BIGINT", "bid_count": "BIGINT", "start_time": "TIMESTAMP", "end_time": "TIMESTAMP"},
        """
        SELECT bidder, sum(times * bid_count) AS bid_count, bool_and(
            start_time = time_bucket(INTERVAL 10 SECONDS, start_time)
            AND end_time = start_time + INTERVAL 10 SECONDS
        ) AS windows_are_aligned, 1 AS times
        FROM (
            SELECT bidder, bid_count, start_time, end_time, times FROM output
            -- Windows that are not over when the events end stay in the state, of which this is an export.
            UNION ALL
            SELECT bidder, bids, "start", "start" + INTERVAL 10 SECONDS, 1
            FROM read_json(
                '{directory}/../windows.ndjson', format = 'newline_delimited',
                columns = {{bidder: 'BIGINT', bids: 'BIGINT', "start": 'TIMESTAMP'}}
            )
        )
        GROUP BY bidder
        """,
    )
}


def read(connection, directory, columns):
    """Makes a view `output` of the rows of the files: the columns, and how many `times` each row is
    there, which is -1 where a changelog removes it."""
    files = sorted(path for path in Path(directory).glob("part-*.ndjson") if path.stat().st_size > 0)
    if not files:
        empty = ", ".join(f'NULL::{type} AS "{name}"' for name, type in columns.items())
        connection.execute(f"CREATE OR REPLACE TEMP VIEW output AS SELECT {empty}, 1 AS times WHERE false")
        return
    with files[0].open() as file:
        found = json.loads(file.readline()).keys()
    changelog = "op" in found
    columns = columns | ({"op": "VARCHAR"} if changelog else {})
    if set(found) != set(columns):
        raise ValueError(f"its columns are {', '.join(found)}; expected are {', '.join(columns)}")
    added, removed = "op IN ('+I', '+U') THEN 1", "op IN ('-U', '-D') THEN -1"
    times = f"CASE WHEN {added} WHEN {removed} ELSE error('no kind of row: ' || op) END" if changelog else "1"
    kept = "* EXCLUDE (op)" if changelog else "*"
    types = ", ".join(f"\"{name}\": '{type}'" for name, type in columns.items())
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW output AS SELECT {kept}, {times} AS times FROM "
        f"read_json({[str(file) for file in files]}, format = 'newline_delimited', columns = {{{types}}})"
    )


def compare(connection, query, directory):
    """The object that is printed."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {nexmark.QUERIES[query]}")
    described = connection.execute("SELECT column_name, column_type FROM (DESCRIBE answer)").fetchall()
    columns, form = FORMS.get(query, (dict(described), "FROM output"))
    read(connection, directory, columns)

    names = ", ".join(f'"{name}"' for name, _ in described)
    # Each row that is there too often (times > 0) or too rarely.
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE difference AS
        SELECT {names}, sum(times)::BIGINT AS times
        FROM (SELECT {names}, times FROM ({form.format(directory=directory)}) UNION ALL SELECT {names}, -1 FROM answer)
        GROUP BY ALL HAVING sum(times) <> 0
        """
    )
    shown = connection.execute(f"SELECT * FROM difference ORDER BY ALL LIMIT {SHOWN}").fetchall()
    differing, surplus, expected = connection.execute(
        "SELECT count(*), coalesce(sum(times), 0)::BIGINT, (SELECT count(*) FROM answer) FROM difference"
    ).fetchone()
    return {
        "rows": expected + surplus,
        "expected_rows": expected,
        "differing": differing,
        "differences": [
            {"times": row[-1], "row": {name: str(value) for (name, _), value in zip(described, row)}}
            for row in shown
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="CSV file of `howdah nexmark`")
    parser.add_argument("--events", type=int, required=True, help="how many events it has")
    arguments = parser.parse_args()

    nexmark.check_events(arguments.input, arguments.events)
    connection = nexmark.connect(arguments.input)
    print("ready", flush=True)
    for line in sys.stdin:
        query, directory = line.rstrip("\n").split(" ", 1)
        try:
            result = compare(connection, query, directory)
        except Exception as error:
            result = {"error": str(error)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
