"""The answer to a query over Nexmark events, computed by DuckDB over the file of `howdah nexmark`.

Writes it as CSV with a header, sorted by all columns, and prints one JSON object: how many rows it
has, and the SHA-256 of its lines without the header. Times are milliseconds since the epoch.

The benchmark's own queries are in `nexmark_queries`, in SQL over the tables below.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import duckdb

INPUT_COLUMNS = {
    "event_type": "INTEGER",
    "seq": "BIGINT",
    "date_time": "TIMESTAMP",
    "p_id": "BIGINT",
    "name": "VARCHAR",
    "email": "VARCHAR",
    "card": "VARCHAR",
    "city": "VARCHAR",
    "state": "VARCHAR",
    "a_id": "BIGINT",
    "item_name": "VARCHAR",
    "description": "VARCHAR",
    "initial_bid": "BIGINT",
    "reserve": "BIGINT",
    "expires": "TIMESTAMP",
    "seller": "BIGINT",
    "category": "BIGINT",
    "auction": "BIGINT",
    "bidder": "BIGINT",
    "price": "BIGINT",
    "channel": "VARCHAR",
    "url": "VARCHAR",
    "extra": "VARCHAR",
}

# SHA-256 of the files with so many events: what queries are over must not change unnoticed.
EVENTS_SHA256 = {
    100_000: "b5f89c9b2be899250423d20600ea12c1c9f96df113311fba79cb771de4bb8e62",
    500_000: "34336ba331f1660fa07fbdfb19199fdf88f5d62ab5af2fb29f6495cf378b2521",
    2_000_000: "eb1a8b068d069bdb0894be6bf98fbcf1e6ab2ba151502629592299065289a21f",
}

# What queries are over. `seq` is the number of an event: of two at the same time, the order.
TABLES = {
    "person": """
        SELECT p_id AS id, name, email, card, city, state, date_time, extra, seq
        FROM event WHERE event_type = 0
    """,
    "auction": """
        SELECT a_id AS id, item_name, description, initial_bid, reserve, date_time, expires, seller,
               category, extra, seq
        FROM event WHERE event_type = 1
    """,
    "bid": """
        SELECT auction, bidder, price, channel, url, date_time, extra, seq
        FROM event WHERE event_type = 2
    """,
    # What `cargo xtask nexmark verify` writes as side_input.csv.
    "side_input": "SELECT range AS key, 'value-' || range AS value FROM range(10000)",
}

# Queries of operators that are no query of the benchmark, or have other columns than it.
QUERIES = {
    # The last bid of each bidder on each auction; of two at the same time, the later event.
    "last-bid": """
        SELECT auction, bidder, price, date_time, seq FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, seq DESC) = 1
    """,
    "auction-stats": """
        SELECT auction, count(*)::BIGINT AS bids, min(price) AS min_price, max(price) AS max_price,
               sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY auction
    """,
    # The highest bid on each auction before its end; of equal ones, the earliest.
    "auction-winners": """
        SELECT auction, seller, bidder, price FROM bid JOIN auction ON auction = id
        WHERE bid.date_time < expires
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, bid.date_time, bid.seq) = 1
    """,
    # What the other engines were compared on.
    "auction-highest": "SELECT auction, max(price) AS max_price, count(*)::BIGINT AS bids FROM bid GROUP BY auction",
}

# The queries of the benchmark.
FILES = Path(__file__).with_name("nexmark_queries").glob("*.sql")
QUERIES |= {file.stem: file.read_text(encoding="utf-8") for file in FILES}


def connect(path, first=None):
    """A connection with the tables of the first `first` events of the file (of all, if None)."""
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.execute("SET TimeZone = 'UTC'")
    limit = "" if first is None else f"WHERE seq < {first}"
    connection.execute(
        "CREATE TABLE event AS SELECT * FROM read_csv(?, header = true, auto_detect = false, "
        f"delim = ',', quote = '\"', escape = '\"', columns = ?) {limit}",
        [str(path), INPUT_COLUMNS],
    )
    for name, query in TABLES.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    return connection


def check_events(path, count):
    """Fails unless the file is the one of so many events, where it is known."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    expected = EVENTS_SHA256.get(count, found)
    if found != expected:
        sys.exit(f"{path} has other events than before: its SHA-256 is {found}, not {expected}")


def answer(connection, query):
    """Names of columns and rows of the answer, sorted, with times in milliseconds."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {QUERIES[query]}")
    columns = connection.execute("SELECT column_name, column_type FROM (DESCRIBE answer)").fetchall()
    values = (f"epoch_ms({name})" if type == "TIMESTAMP" else name for name, type in columns)
    rows = connection.execute(f"SELECT {', '.join(values)} FROM answer ORDER BY ALL").fetchall()
    return [name for name, _ in columns], rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="CSV file of `howdah nexmark`")
    parser.add_argument("query", choices=sorted(QUERIES))
    parser.add_argument("--first", type=int, help="only the events with a smaller number")
    parser.add_argument("--out", required=True, help="CSV file to write")
    arguments = parser.parse_args()

    columns, rows = answer(connect(arguments.input, arguments.first), arguments.query)
    body = "".join(",".join(map(str, row)) + "\n" for row in rows)
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n" + body)
    print(json.dumps({"rows": len(rows), "sha256": hashlib.sha256(body.encode()).hexdigest()}))


if __name__ == "__main__":
    main()
