"""Plans a read of a snapshot of a state table, says so, and reads once a line comes in."""

import json
import sys

from pypaimon import CatalogFactory


def main():
    warehouse, name, snapshot = sys.argv[1:]
    table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    builder = table.copy({"scan.snapshot-id": snapshot}).new_read_builder()
    splits = builder.new_scan().plan().splits()
    print("planned", flush=True)
    sys.stdin.readline()
    rows = builder.new_read().to_arrow(splits).to_pylist()
    print(json.dumps(sorted([row["id"], row["number"], row["text"]] for row in rows)), flush=True)


if __name__ == "__main__":
    main()
