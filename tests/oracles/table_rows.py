"""Reads a table with pypaimon and prints its rows, sorted: a JSON list of lists of texts.

Arguments: the warehouse, `database.table`, and the columns.
"""

import json
import sys

import state_table
from pypaimon import CatalogFactory

warehouse, name, *columns = sys.argv[1:]
table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
rows = state_table.read(table, columns)
print(json.dumps(sorted([state_table.text(value) for value in row] for row in rows)))
