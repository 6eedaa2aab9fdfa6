/* Counts in the value of each key: what `cargo xtask bench boundary` measures.
 *
 * The first eight bytes of a value are a counter. A key without a value gets that of its row;
 * otherwise each row adds one to the counter. Emits each row with its key's value after it.
 * Works on columns, as hot operators do. */

#include "howdah.h"

typedef struct row {
    int64_t key;
    howdah_bytes value;
} row;

static const howdah_field row_fields[] = {
    HOWDAH_FIELD(row, key, HOWDAH_INT64),
    HOWDAH_FIELD(row, value, HOWDAH_BINARY),
};
static const howdah_row row_row = HOWDAH_ROW(row, row_fields);

typedef struct key {
    int64_t key;
} key;

static const howdah_field key_fields[] = { HOWDAH_FIELD(key, key, HOWDAH_INT64) };
static const howdah_row key_row = HOWDAH_ROW(key, key_fields);

typedef struct value {
    howdah_bytes value;
} value;

static const howdah_field value_fields[] = { HOWDAH_FIELD(value, value, HOWDAH_BINARY) };
static const howdah_row value_row = HOWDAH_ROW(value, value_fields);

static howdah_state state = { .name = "values", .kind = HOWDAH_VALUE, .row = &value_row };
static howdah_output output = { .name = "output", .row = &row_row };

static void count(const howdah_bytes *bytes) {
    uint64_t counter;
    if (bytes->length < sizeof counter) return;
    memcpy(&counter, bytes->data, sizeof counter);
    counter++;
    /* The bytes lie in the memory of this call. */
    memcpy((uint8_t *)bytes->data, &counter, sizeof counter);
}

static bool has_one_row_a_key(const howdah_batch *batch) {
    if (batch->rows != batch->key_count) return false;
    for (uint32_t i = 0; i < batch->rows; i++)
        if (batch->row_keys[i] != i) return false;
    return true;
}

/* Batches with new keys, or several rows of a key. */
static void one_by_one(const howdah_batch *batch, const howdah_column *stored, const uint8_t *present) {
    value *values = howdah_allocate(batch->key_count * sizeof *values);
    value *emitted = howdah_allocate(batch->rows * sizeof *emitted);
    for (uint32_t k = 0; k < batch->key_count; k++) {
        values[k].value = howdah_bytes_at(stored, k);
        if (present && !howdah_bit(present, k)) values[k].value.data = NULL;
    }
    for (uint32_t i = 0; i < batch->rows; i++) {
        howdah_bytes *after = &values[batch->row_keys[i]].value;
        if (after->data) count(after);
        else *after = howdah_bytes_at(&batch->columns[1], i);
        uint8_t *copy = howdah_allocate(after->length);
        if (after->length) memcpy(copy, after->data, after->length);
        emitted[i].value = (howdah_bytes){ copy, after->length };
    }
    howdah_column column = howdah_encode(value_fields, &value_row, values, batch->key_count);
    howdah_value_store(&state, &column);
    howdah_column *columns = howdah_allocate(2 * sizeof *columns);
    columns[0] = batch->columns[0];
    columns[1] = howdah_encode(value_fields, &value_row, emitted, batch->rows);
    howdah_emit_columns(&output, batch->rows, columns, batch->timestamps, NULL);
}

static void on_batch(const howdah_batch *batch) {
    const uint8_t *present;
    const howdah_column *stored = howdah_value_load(&state, &present);
    if (present || !has_one_row_a_key(batch)) {
        one_by_one(batch, stored, present);
        return;
    }
    for (uint32_t k = 0; k < batch->key_count; k++) {
        howdah_bytes bytes = howdah_bytes_at(stored, k);
        count(&bytes);
    }
    howdah_value_store(&state, stored);
    howdah_column *columns = howdah_allocate(2 * sizeof *columns);
    columns[0] = batch->columns[0];
    columns[1] = *stored;
    howdah_emit_columns(&output, batch->rows, columns, batch->timestamps, NULL);
}

static howdah_input input = { .name = "input", .row = &row_row, .batch = on_batch };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &input, NULL },
    .outputs = (howdah_output *const[]){ &output, NULL },
    .states = (howdah_state *const[]){ &state, NULL },
};
