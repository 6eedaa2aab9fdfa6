/* Write howdah operators in C: typed state, one record at a time.
 *
 * An operator is a set of tables (which fields a row has, which inputs, outputs and states there
 * are) and of functions that take rows. Compile it with howdah.c; `howdah build` makes a
 * component of it. All memory of a call comes from an arena that is empty again when the next call
 * begins: what these functions give is valid until the running call ends, and is never freed.
 */
#ifndef HOWDAH_H
#define HOWDAH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bindings/howdah_bindings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Rows: structs, and tables that say which columns their members are ---- */

/* The type of a column, and the type of the member that holds its values. */
typedef enum howdah_type {
    HOWDAH_BOOLEAN,   /* bool */
    HOWDAH_INT32,     /* int32_t */
    HOWDAH_INT64,     /* int64_t */
    HOWDAH_FLOAT32,   /* float */
    HOWDAH_FLOAT64,   /* double */
    HOWDAH_DECIMAL128,/* howdah_decimal; declare it with HOWDAH_DECIMAL */
    HOWDAH_DATE,      /* int32_t: days since 1970-01-01 */
    HOWDAH_TIMESTAMP, /* int64_t: milliseconds since 1970-01-01T00:00 UTC */
    HOWDAH_UTF8,      /* howdah_bytes */
    HOWDAH_BINARY     /* howdah_bytes */
} howdah_type;

/* Text or bytes, where they lie: never copied, not terminated. */
typedef struct howdah_bytes {
    const uint8_t *data;
    uint32_t length;
} howdah_bytes;

/* The unscaled value of a decimal, in two's complement. */
typedef struct howdah_decimal {
    uint64_t low;
    int64_t high;
} howdah_decimal;

/* A column. */
typedef struct howdah_field {
    const char *name;
    howdah_type type;
    uint8_t precision, scale;
    bool nullable;
    uint32_t offset;      /* of the member */
    uint32_t null_offset; /* of a bool that says that the member has no value */
} howdah_field;

#define HOWDAH_FIELD(STRUCT, NAME, TYPE) \
    { .name = #NAME, .type = (TYPE), .offset = offsetof(STRUCT, NAME) }
#define HOWDAH_NULLABLE(STRUCT, NAME, TYPE, IS_NULL) \
    { .name = #NAME, .type = (TYPE), .nullable = true, .offset = offsetof(STRUCT, NAME), \
      .null_offset = offsetof(STRUCT, IS_NULL) }
#define HOWDAH_DECIMAL(STRUCT, NAME, PRECISION, SCALE) \
    { .name = #NAME, .type = HOWDAH_DECIMAL128, .precision = (PRECISION), .scale = (SCALE), \
      .offset = offsetof(STRUCT, NAME) }

#define HOWDAH_NULLABLE_DECIMAL(STRUCT, NAME, PRECISION, SCALE, IS_NULL) \
    { .name = #NAME, .type = HOWDAH_DECIMAL128, .precision = (PRECISION), .scale = (SCALE), \
      .nullable = true, .offset = offsetof(STRUCT, NAME), .null_offset = offsetof(STRUCT, IS_NULL) }

/* The columns of a struct. */
typedef struct howdah_row {
    const howdah_field *fields;
    uint32_t field_count;
    uint32_t size_bytes;
} howdah_row;

#define HOWDAH_ROW(STRUCT, FIELDS) { (FIELDS), sizeof(FIELDS) / sizeof *(FIELDS), sizeof(STRUCT) }

/* The text of a string literal or another terminated string. */
static inline howdah_bytes howdah_text(const char *text) {
    howdah_bytes bytes = { (const uint8_t *)text, (uint32_t)strlen(text) };
    return bytes;
}

/* ---- Columns, for operators that want no rows ---- */

typedef howdah_operator_types_column_t howdah_column;

static inline bool howdah_bit(const uint8_t *bitmap, uint32_t row) {
    return bitmap[row / 8] >> row % 8 & 1;
}

static inline bool howdah_is_null(const howdah_column *column, uint32_t row) {
    return column->validity.is_some && !howdah_bit(column->validity.val.ptr, row);
}

static inline int32_t howdah_int32(const howdah_column *column, uint32_t row) {
    int32_t value;
    memcpy(&value, column->data.ptr + (size_t)row * sizeof value, sizeof value);
    return value;
}

static inline int64_t howdah_int64(const howdah_column *column, uint32_t row) {
    int64_t value;
    memcpy(&value, column->data.ptr + (size_t)row * sizeof value, sizeof value);
    return value;
}

static inline double howdah_float64(const howdah_column *column, uint32_t row) {
    double value;
    memcpy(&value, column->data.ptr + (size_t)row * sizeof value, sizeof value);
    return value;
}

static inline howdah_bytes howdah_bytes_at(const howdah_column *column, uint32_t row) {
    uint32_t bounds[2];
    memcpy(bounds, column->offsets.val.ptr + (size_t)row * sizeof *bounds, sizeof bounds);
    howdah_bytes bytes = { column->data.ptr + bounds[0], bounds[1] - bounds[0] };
    return bytes;
}

/* Makes one column of a member of structs that lie one after the other. */
howdah_column howdah_encode(const howdah_field *field, const howdah_row *row, const void *structs,
                            uint32_t count);

/* Structs of columns, one after the other. Text and bytes stay where they are. */
void *howdah_decode(const howdah_row *row, const howdah_column *columns, uint32_t count);

/* Rows of an input as columns. */
typedef struct howdah_batch {
    uint32_t rows;
    const howdah_column *columns;
    const uint8_t *kinds;       /* one for each row, or NULL: all are inserts */
    const uint8_t *timestamps;  /* 64-bit event times */
    const uint32_t *row_keys;   /* for each row, which of the distinct keys it has */
    uint32_t key_count;
    const howdah_column *keys;  /* the distinct keys */
} howdah_batch;

/* ---- What an operator consists of ---- */

typedef enum howdah_kind {
    HOWDAH_INSERT,        /* +I: a new row */
    HOWDAH_UPDATE_BEFORE, /* -U: what a row was before an update */
    HOWDAH_UPDATE_AFTER,  /* +U: what a row is after an update */
    HOWDAH_DELETE         /* -D: a row that is gone */
} howdah_kind;

/* A stream that the operator reads. */
typedef struct howdah_input {
    const char *name;
    const howdah_row *row;
    const char *const *key;      /* fields that rows are grouped by; NULL: those of the key */
    bool changelog;              /* whether it understands rows that are not inserts */
    void (*each)(const void *row);                /* takes the next row */
    void (*batch)(const howdah_batch *batch);     /* or a whole batch */
} howdah_input;

/* A stream that the operator emits. */
typedef struct howdah_output {
    const char *name;
    const howdah_row *row;
    bool changelog;              /* whether its rows carry kinds */
    struct howdah_pending *pending; /* of the SDK */
} howdah_output;

typedef enum howdah_state_kind {
    HOWDAH_VALUE,
    HOWDAH_LIST,
    HOWDAH_MAP,
    HOWDAH_REDUCING
} howdah_state_kind;

typedef enum howdah_reducer {
    HOWDAH_SUM,
    HOWDAH_MIN,
    HOWDAH_MAX,
    HOWDAH_COUNT,
    HOWDAH_FIRST,
    HOWDAH_LAST
} howdah_reducer;

/* A keyed state. `.name`, `.kind` and `.row` are required. */
typedef struct howdah_state {
    const char *name;
    howdah_state_kind kind;
    const howdah_row *row;
    const howdah_row *map_key;         /* of a map */
    const howdah_reducer *reducers;    /* of a reducing state, one for each field */
    uint32_t schema_version;           /* 0 stands for 1 */
    uint64_t ttl_ms;                   /* 0: rows live until they are deleted */
    bool ttl_on_read;                  /* whether a read starts the time anew */
    /* Of a map: the map key that a row of an input will ask for, so that those of a batch come in
     * one call. Gives false if it will ask for none. */
    bool (*prefetch)(const void *input_row, void *map_key);
    int32_t handle;                    /* of the SDK */
    struct howdah_loaded *loaded;      /* of the SDK */
} howdah_state;

/* A family of timers. */
typedef struct howdah_timers {
    const char *name;
    bool processing_time;              /* wait for the clock instead of the watermark */
    void (*fired)(int64_t time);
    int32_t handle;                    /* of the SDK */
    struct howdah_changes *changes;    /* of the SDK */
} howdah_timers;

/* An operator. Lists end with NULL; what is not there may be left out. */
typedef struct howdah_operator {
    const howdah_row *key;             /* rows are grouped by this */
    howdah_input *const *inputs;
    howdah_output *const *outputs;
    howdah_state *const *states;
    howdah_timers *const *timers;
    void (*configure)(void);           /* checks the configuration; also runs before the start */
    void (*open)(void);
    void (*on_watermark)(int64_t watermark);
    void (*on_barrier)(uint64_t checkpoint);
    void (*on_checkpoint_complete)(uint64_t checkpoint);
    void (*close)(void);
} howdah_operator;

/* The operator of the component: its author defines it. */
extern const howdah_operator howdah_the_operator;

/* ---- What its functions call ---- */

/* Fails the running call, with a message as of printf: what it wrote and emitted is dropped, and
 * the pipeline goes on from its last checkpoint. The first failure counts. A failure of the host
 * does the same by itself, so no call of this header has an error to check. */
void howdah_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a configuration that is not usable. */
void howdah_fail_config(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the running call has failed. */
bool howdah_failed(void);

/* The row or timer that is being processed. */
const void *howdah_key(void);          /* a struct of the operator's key; NULL without a row */
int64_t howdah_timestamp(void);        /* of the row or timer; else the watermark */
int64_t howdah_watermark(void);
howdah_kind howdah_row_kind(void);

/* Emits a row, with the event time of the record. What its text and bytes point to is read when the
 * call is over, as with rows that are put into states: free it later, or have it in call memory. */
void howdah_emit(howdah_output *output, const void *row);
void howdah_emit_kind(howdah_output *output, howdah_kind kind, const void *row);
void howdah_emit_at(howdah_output *output, howdah_kind kind, int64_t timestamp, const void *row);
/* Emits rows as columns; `timestamps` has 64-bit event times, `kinds` may be NULL. Not together
 * with single rows. */
void howdah_emit_columns(howdah_output *output, uint32_t rows, const howdah_column *columns,
                         const uint8_t *timestamps, const uint8_t *kinds);

/* States work on the key of the record. The first read of a batch loads the rows of all its keys,
 * and what changed is written when the batch ends: one call to the host each. */

/* The row, or NULL. */
const void *howdah_value_get(howdah_state *state);
void howdah_value_put(howdah_state *state, const void *row);
void howdah_value_delete(howdah_state *state);

/* The rows of all keys of the batch as columns. `*present` is a bitmap, or NULL: all keys have a
 * row. For operators that take whole batches. */
const howdah_column *howdah_value_load(howdah_state *state, const uint8_t **present);
/* Writes a row for each key of the batch. */
void howdah_value_store(howdah_state *state, const howdah_column *columns);

void howdah_list_append(howdah_state *state, const void *row);
/* The rows, one after the other, oldest first. */
const void *howdah_list_get(howdah_state *state, uint32_t *count);
void howdah_list_clear(howdah_state *state);

/* The row under a map key, or NULL. */
const void *howdah_map_get(howdah_state *state, const void *map_key);
void howdah_map_put(howdah_state *state, const void *map_key, const void *row);
void howdah_map_delete(howdah_state *state, const void *map_key);
/* The entries from `first` to before `end` (NULL: no bound), at most `limit`, in order: map keys
 * and rows, each one after the other. Each use is a call to the host. */
uint32_t howdah_map_entries(howdah_state *state, const void *first, const void *end,
                            uint32_t limit, const void **map_keys, const void **rows);
void howdah_map_clear(howdah_state *state);

/* The folded row, with what the batch added so far, or NULL. */
const void *howdah_reducing_get(howdah_state *state);
void howdah_reducing_add(howdah_state *state, const void *row);
void howdah_reducing_clear(howdah_state *state);

void howdah_timer_set(howdah_timers *timers, int64_t time);
void howdah_timer_delete(howdah_timers *timers, int64_t time);

/* Outside of rows and timers (in on_watermark, on_barrier, close), states and timers of any keys of
 * this subtask, one call to the host for all: `keys` are `count` structs of the operator's key, and
 * row, map key or time `i` belongs to key `i`. What gives pointers gives NULL for a key without. */
const void **howdah_value_get_many(howdah_state *state, const void *keys, uint32_t count);
void howdah_value_put_many(howdah_state *state, const void *keys, const void *rows, uint32_t count);
void howdah_value_delete_many(howdah_state *state, const void *keys, uint32_t count);
/* The rows of all lists, those of the first key first: how many there are, and the index of each
 * row's key. */
uint32_t howdah_list_get_many(howdah_state *state, const void *keys, uint32_t count,
                              const uint32_t **key_of, const void **rows);
void howdah_list_append_many(howdah_state *state, const void *keys, const void *rows, uint32_t count);
void howdah_list_clear_many(howdah_state *state, const void *keys, uint32_t count);
const void **howdah_map_get_many(howdah_state *state, const void *keys, const void *map_keys, uint32_t count);
void howdah_map_put_many(howdah_state *state, const void *keys, const void *map_keys, const void *rows,
                         uint32_t count);
void howdah_map_delete_many(howdah_state *state, const void *keys, const void *map_keys, uint32_t count);
/* All entries, as for lists; those of a key in order. */
uint32_t howdah_map_entries_many(howdah_state *state, const void *keys, uint32_t count,
                                 const uint32_t **key_of, const void **map_keys, const void **rows);
void howdah_map_clear_many(howdah_state *state, const void *keys, uint32_t count);
const void **howdah_reducing_get_many(howdah_state *state, const void *keys, uint32_t count);
void howdah_reducing_add_many(howdah_state *state, const void *keys, const void *rows, uint32_t count);
void howdah_reducing_clear_many(howdah_state *state, const void *keys, uint32_t count);
void howdah_timer_set_many(howdah_timers *timers, const void *keys, const int64_t *times, uint32_t count);
void howdah_timer_delete_many(howdah_timers *timers, const void *keys, const int64_t *times, uint32_t count);

/* The configuration: a JSON object, and its members on the first level. Texts come without the escapes of
 * JSON, so a NUL may be in them, and stay where they are. */
const char *howdah_config(void);
bool howdah_config_text(const char *name, howdah_bytes *value);
int64_t howdah_config_int64(const char *name, int64_t otherwise);

/* Where the instance finds itself. */
uint32_t howdah_subtask(void);
uint32_t howdah_parallelism(void);
const char *howdah_pipeline(void);
const char *howdah_operator_name(void);
/* Whether the state comes from a checkpoint, and from which. */
bool howdah_restored_from(uint64_t *checkpoint);

/* The clock of the host: the same in all of one call. */
int64_t howdah_now(void);

typedef enum howdah_level {
    HOWDAH_TRACE_LEVEL,
    HOWDAH_DEBUG_LEVEL,
    HOWDAH_INFO_LEVEL,
    HOWDAH_WARN_LEVEL,
    HOWDAH_ERROR_LEVEL
} howdah_level;
void howdah_log(howdah_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void howdah_counter_add(const char *name, uint64_t amount);
void howdah_gauge_set(const char *name, double value);
void howdah_histogram_record(const char *name, double value);

/* Memory of the running call. */
void *howdah_allocate(size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
