"""Writes a table with pypaimon: a commit for each batch of rows in a JSON file.

Arguments: the warehouse, `database.table`, and the file: {"key": [names], "batches": [[[id, name]]]}.
A table that is there is written to.
"""

import json
import sys

import pyarrow
from pypaimon import CatalogFactory, Schema

warehouse, name, path = sys.argv[1:]
with open(path) as file:
    wanted = json.load(file)
nullable = not wanted["key"]
columns = pyarrow.schema(
    [pyarrow.field("id", pyarrow.int64(), nullable=nullable), ("name", pyarrow.string())]
)
catalog = CatalogFactory.create({"warehouse": warehouse})
catalog.create_database(name.split(".")[0], True)
options = {"bucket": "2"} if wanted["key"] else {}
schema = Schema.from_pyarrow_schema(columns, primary_keys=wanted["key"], options=options)
catalog.create_table(name, schema, True)
table = catalog.get_table(name)
for batch in wanted["batches"]:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    ids, names = zip(*batch)
    write.write_arrow(pyarrow.Table.from_arrays([list(ids), list(names)], schema=columns))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
print(json.dumps({"batches": len(wanted["batches"])}))
