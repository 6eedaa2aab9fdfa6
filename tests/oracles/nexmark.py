"""The answer to a Nexmark query, computed by DuckDB over the input file.

Writes it as CSV with a header, sorted by all columns, and prints one JSON object: how many rows it
has, and the SHA-256 of its lines without the header. Times are milliseconds since the epoch.
"""

import argparse
import hashlib
import json

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
        WHERE date_time < expires
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, seq) = 1
    """,
    # What the other engines were compared on.
    "auction-highest": "SELECT auction, max(price) AS max_price, count(*)::BIGINT AS bids FROM bid GROUP BY auction",
}


def answer(path, query, first):
    """The rows of the answer over the first `first` events of the file (all, if None), sorted."""
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TABLE event AS SELECT * FROM read_csv(?, header = true, auto_detect = false, "
        "delim = ',', quote = '\"', escape = '\"', columns = ?)",
        [path, INPUT_COLUMNS],
    )
    limit = "" if first is None else f" AND seq < {first}"
    connection.execute(
        "CREATE VIEW bid AS SELECT auction, bidder, price, epoch_ms(date_time) AS date_time, seq "
        f"FROM event WHERE event_type = 2{limit}"
    )
    connection.execute(
        "CREATE VIEW auction AS SELECT a_id AS id, seller, epoch_ms(expires) AS expires "
        f"FROM event WHERE event_type = 1{limit}"
    )
    result = connection.execute(f"SELECT * FROM ({QUERIES[query]}) ORDER BY ALL")
    return [column[0] for column in result.description], result.fetchall()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="CSV file of `howdah nexmark`")
    parser.add_argument("query", choices=sorted(QUERIES))
    parser.add_argument("--first", type=int, help="only the events with a smaller number")
    parser.add_argument("--out", required=True, help="CSV file to write")
    arguments = parser.parse_args()

    columns, rows = answer(arguments.input, arguments.query, arguments.first)
    body = "".join(",".join(map(str, row)) + "\n" for row in rows)
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n" + body)
    print(json.dumps({"rows": len(rows), "sha256": hashlib.sha256(body.encode()).hexdigest()}))


if __name__ == "__main__":
    main()
