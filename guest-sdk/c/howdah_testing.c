/* The host of howdah_testing.h: the functions that an operator imports, over lists in memory. */

#include "howdah_testing.h"

#include <stdio.h>
#include <stdlib.h>

void howdah_fold(const howdah_state *state, char *into, bool has_row, const char *added);

/* A row of a state, or a timer. Never changed, so a checkpoint is a copy of the list. */
typedef struct item {
    int32_t handle;
    const char *key, *map_key, *row;
    int64_t time;
    bool is_timer;
} item;

typedef struct items {
    item *at;
    uint32_t count;
} items;

static items now, saved;
static int64_t watermark, saved_watermark;
static char *keys; /* of the running call */
static uint32_t key_count;
static uint64_t checkpoint;

const howdah_event *howdah_test_events;
uint32_t howdah_test_event_count;
const char *howdah_test_failure;
uint32_t howdah_test_reads, howdah_test_writes;
int64_t howdah_test_now;

void howdah_test_check(bool holds, const char *what, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: %s does not hold%s%s\n", file, line, what, howdah_test_failure ? ": " : "",
            howdah_test_failure ? howdah_test_failure : "");
    exit(1);
}

/* Memory that lasts as long as the test. */
static void *lasting(const void *from, size_t bytes) {
    void *made = malloc(bytes ? bytes : 1);
    return memcpy(made, from, bytes);
}

/* A struct with all its text. */
static char *lasting_row(const howdah_row *row, const void *from) {
    char *made = lasting(from, row->size_bytes);
    for (uint32_t f = 0; f < row->field_count; f++) {
        howdah_bytes *bytes = (howdah_bytes *)(made + row->fields[f].offset);
        if (row->fields[f].type != HOWDAH_UTF8 && row->fields[f].type != HOWDAH_BINARY) continue;
        if (row->fields[f].nullable && *(bool *)(made + row->fields[f].null_offset)) continue;
        bytes->data = lasting(bytes->data, bytes->length);
    }
    return made;
}

/* Whether two rows encode to the same columns. */
static bool same(const howdah_row *row, const void *a, const void *b) {
    for (uint32_t f = 0; f < row->field_count; f++) {
        howdah_column x = howdah_encode(&row->fields[f], row, a, 1);
        howdah_column y = howdah_encode(&row->fields[f], row, b, 1);
        if (x.data.len != y.data.len || x.validity.is_some != y.validity.is_some) return false;
        if (x.data.len && memcmp(x.data.ptr, y.data.ptr, x.data.len) != 0) return false;
    }
    return true;
}

static const howdah_state *state_of(int32_t handle) {
    return howdah_the_operator.states[handle];
}

static void add(item made) {
    now.at = realloc(now.at, (now.count + 1) * sizeof made);
    now.at[now.count++] = made;
}

static void drop(uint32_t index) {
    item *rest = now.at + index;
    memmove(rest, rest + 1, (--now.count - index) * sizeof *rest);
}

/* The next row of a state (or timer of a family) of a key from an index on; under a map key, or
 * any. `now.count` if there is none. */
static uint32_t find(uint32_t from, bool is_timer, int32_t handle, const void *key, const void *map_key) {
    for (; from < now.count; from++) {
        const item *at = &now.at[from];
        if (at->is_timer != is_timer || at->handle != handle) continue;
        if (!same(howdah_the_operator.key, at->key, key)) continue;
        if (!map_key || same(state_of(handle)->map_key, at->map_key, map_key)) break;
    }
    return from;
}

static void drop_all(int32_t handle, const void *key, const void *map_key) {
    uint32_t at;
    while ((at = find(0, false, handle, key, map_key)) < now.count) drop(at);
}

static uint32_t resolve(const howdah_operator_state_keys_t *named, const char ***found) {
    size_t size = howdah_the_operator.key->size_bytes;
    uint32_t count = key_count;
    const char *structs = keys;
    const uint32_t *indices = NULL;
    if (named->tag == HOWDAH_OPERATOR_STATE_KEYS_SELECTED) {
        indices = (const uint32_t *)named->val.selected.ptr;
        count = (uint32_t)(named->val.selected.len / sizeof *indices);
    } else if (named->tag == HOWDAH_OPERATOR_STATE_KEYS_EXPLICIT) {
        count = named->val.explicit_.rows;
        structs = howdah_decode(howdah_the_operator.key, named->val.explicit_.columns.ptr, count);
    }
    *found = howdah_allocate(count * sizeof **found);
    for (uint32_t i = 0; i < count; i++) (*found)[i] = structs + size * (indices ? indices[i] : i);
    return count;
}

static howdah_operator_state_list_column_t encode(const howdah_row *row, const void *structs, uint32_t count) {
    howdah_operator_state_list_column_t columns = { NULL, row->field_count };
    columns.ptr = howdah_allocate(sizeof *columns.ptr * row->field_count);
    for (uint32_t f = 0; f < row->field_count; f++)
        columns.ptr[f] = howdah_encode(&row->fields[f], row, structs, count);
    return columns;
}

/* Rows as structs one after the other, with a bitmap of which there are. */
static void answer(const howdah_state *state, const char *const *rows, uint32_t count,
                   howdah_operator_state_rows_t *made) {
    size_t size = state->row->size_bytes, bytes = (count + 7) / 8;
    char *structs = memset(howdah_allocate(size * count), 0, size * count);
    uint8_t *present = memset(howdah_allocate(bytes), 0, bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (!rows[i]) continue;
        memcpy(structs + i * size, rows[i], size);
        present[i / 8] |= (uint8_t)(1u << i % 8);
    }
    made->present.is_some = true;
    made->present.val.ptr = present;
    made->present.val.len = bytes;
    made->columns = encode(state->row, structs, count);
}

#define OPEN(KIND)                                                                         \
    bool howdah_operator_state_static_##KIND##_state_open(                                 \
        howdah_bindings_string_t *name, howdah_operator_state_own_##KIND##_state_t *made,  \
        howdah_operator_state_error_t *error) {                                            \
        (void)error;                                                                       \
        for (int32_t i = 0; howdah_the_operator.states[i]; i++)                            \
            if (strncmp(state_of(i)->name, (char *)name->ptr, name->len) == 0) made->__handle = i; \
        return true;                                                                       \
    }
OPEN(value)
OPEN(list)
OPEN(map)
OPEN(reducing)

#define ERROR howdah_operator_state_error_t *error
#define KEYS howdah_operator_state_keys_t *named

static bool get_rows(int32_t handle, KEYS, howdah_operator_state_rows_t *made) {
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    const char **rows = howdah_allocate(count * sizeof *rows);
    howdah_test_reads++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = find(0, false, handle, resolved[i], NULL);
        rows[i] = at < now.count ? now.at[at].row : NULL;
    }
    answer(state_of(handle), rows, count, made);
    return true;
}

static bool clear_rows(int32_t handle, KEYS) {
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    howdah_test_writes++;
    for (uint32_t i = 0; i < count; i++) drop_all(handle, resolved[i], NULL);
    return true;
}

bool howdah_operator_state_method_value_state_get(howdah_operator_state_borrow_value_state_t self, KEYS, howdah_operator_state_rows_t *made, ERROR) {
    (void)error;
    return get_rows(self.__handle, named, made);
}

bool howdah_operator_state_method_value_state_put(howdah_operator_state_borrow_value_state_t self, KEYS, howdah_operator_state_list_column_t *columns, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    char *rows = howdah_decode(state->row, columns->ptr, count);
    howdah_test_writes++;
    (void)error;
    for (uint32_t i = 0; i < count; i++) {
        drop_all(self.__handle, resolved[i], NULL);
        add((item){ .handle = self.__handle, .key = lasting_row(howdah_the_operator.key, resolved[i]),
                    .row = lasting_row(state->row, rows + i * state->row->size_bytes) });
    }
    return true;
}

bool howdah_operator_state_method_value_state_delete(howdah_operator_state_borrow_value_state_t self, KEYS, ERROR) {
    (void)error;
    return clear_rows(self.__handle, named);
}

bool howdah_operator_state_method_list_state_append(howdah_operator_state_borrow_list_state_t self, KEYS, howdah_operator_state_u32_buffer_t *key_of, howdah_operator_state_list_column_t *columns, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    const uint32_t *of = (const uint32_t *)key_of->ptr;
    uint32_t count = (uint32_t)(key_of->len / sizeof *of);
    char *rows = howdah_decode(state->row, columns->ptr, count);
    const char **resolved;
    resolve(named, &resolved);
    howdah_test_writes++;
    (void)error;
    for (uint32_t i = 0; i < count; i++)
        add((item){ .handle = self.__handle, .key = lasting_row(howdah_the_operator.key, resolved[of[i]]),
                    .row = lasting_row(state->row, rows + i * state->row->size_bytes) });
    return true;
}

/* Rows of several keys, one after the other. */
typedef struct found {
    uint32_t *key_of, count;
    char *rows, *map_keys;
} found;

static void collect(found *to, const howdah_state *state, uint32_t key, const item *at) {
    size_t size = state->row->size_bytes;
    to->key_of[to->count] = key;
    memcpy(to->rows + to->count * size, at->row, size);
    if (state->map_key) {
        size_t map_key_size = state->map_key->size_bytes;
        memcpy(to->map_keys + to->count * map_key_size, at->map_key, map_key_size);
    }
    to->count++;
}

static found room(const howdah_state *state) {
    found made = { 0 };
    made.key_of = howdah_allocate(now.count * sizeof(uint32_t));
    made.rows = howdah_allocate((size_t)now.count * state->row->size_bytes);
    if (state->map_key) made.map_keys = howdah_allocate((size_t)now.count * state->map_key->size_bytes);
    return made;
}

bool howdah_operator_state_method_list_state_get(howdah_operator_state_borrow_list_state_t self, KEYS, uint32_t limit_rows, howdah_operator_state_list_rows_t *made, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    found rows = room(state);
    howdah_test_reads++;
    (void)error;
    (void)limit_rows;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = 0; (at = find(at, false, self.__handle, resolved[i], NULL)) < now.count; at++)
            collect(&rows, state, i, &now.at[at]);
    memset(made, 0, sizeof *made);
    made->rows = rows.count;
    made->key_of.ptr = (uint8_t *)rows.key_of;
    made->key_of.len = rows.count * sizeof(uint32_t);
    made->columns = encode(state->row, rows.rows, rows.count);
    return true;
}

bool howdah_operator_state_method_list_state_clear(howdah_operator_state_borrow_list_state_t self, KEYS, ERROR) {
    (void)error;
    return clear_rows(self.__handle, named);
}

bool howdah_operator_state_method_map_state_get(howdah_operator_state_borrow_map_state_t self, KEYS, howdah_operator_state_u32_buffer_t *key_of, howdah_operator_state_list_column_t *map_keys, howdah_operator_state_rows_t *made, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    const uint32_t *of = (const uint32_t *)key_of->ptr;
    uint32_t count = (uint32_t)(key_of->len / sizeof *of);
    char *decoded = howdah_decode(state->map_key, map_keys->ptr, count);
    const char **rows = howdah_allocate(count * sizeof *rows), **resolved;
    resolve(named, &resolved);
    howdah_test_reads++;
    (void)error;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = find(0, false, self.__handle, resolved[of[i]], decoded + i * state->map_key->size_bytes);
        rows[i] = at < now.count ? now.at[at].row : NULL;
    }
    answer(state, rows, count, made);
    return true;
}

/* Removes entries, and writes them anew if there are rows for them. */
static bool put_entries(int32_t handle, KEYS, const howdah_operator_state_u32_buffer_t *key_of,
                        const howdah_operator_state_list_column_t *map_keys,
                        const howdah_operator_state_list_column_t *columns) {
    const howdah_state *state = state_of(handle);
    const uint32_t *of = (const uint32_t *)key_of->ptr;
    uint32_t count = (uint32_t)(key_of->len / sizeof *of);
    const char *decoded = howdah_decode(state->map_key, map_keys->ptr, count);
    const char *rows = columns ? howdah_decode(state->row, columns->ptr, count) : NULL;
    const char **resolved;
    resolve(named, &resolved);
    howdah_test_writes++;
    for (uint32_t i = 0; i < count; i++) {
        const char *map_key = decoded + i * state->map_key->size_bytes;
        drop_all(handle, resolved[of[i]], map_key);
        if (rows)
            add((item){ .handle = handle, .key = lasting_row(howdah_the_operator.key, resolved[of[i]]),
                        .map_key = lasting_row(state->map_key, map_key),
                        .row = lasting_row(state->row, rows + i * state->row->size_bytes) });
    }
    return true;
}

bool howdah_operator_state_method_map_state_put(howdah_operator_state_borrow_map_state_t self, KEYS, howdah_operator_state_u32_buffer_t *key_of, howdah_operator_state_list_column_t *map_keys, howdah_operator_state_list_column_t *columns, ERROR) {
    (void)error;
    return put_entries(self.__handle, named, key_of, map_keys, columns);
}

bool howdah_operator_state_method_map_state_delete(howdah_operator_state_borrow_map_state_t self, KEYS, howdah_operator_state_u32_buffer_t *key_of, howdah_operator_state_list_column_t *map_keys, ERROR) {
    (void)error;
    return put_entries(self.__handle, named, key_of, map_keys, NULL);
}

int howdah_compare(const howdah_row *row, const void *a, const void *b);

bool howdah_operator_state_method_map_state_entries(howdah_operator_state_borrow_map_state_t self, KEYS, howdah_operator_state_map_range_t *range, uint32_t limit_rows, howdah_operator_state_map_rows_t *made, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    const howdah_row *map_key = state->map_key;
    const void *first = range->from.is_some ? howdah_decode(map_key, range->from.val.ptr, 1) : NULL;
    const void *end = range->to.is_some ? howdah_decode(map_key, range->to.val.ptr, 1) : NULL;
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    found rows = room(state);
    howdah_test_reads++;
    (void)error;
    for (uint32_t i = 0; i < count; i++) {
        const void *after = NULL;
        /* The smallest entry after the last one, again and again. */
        for (uint32_t taken = 0; taken < limit_rows; taken++) {
            const item *next = NULL;
            for (uint32_t at = 0; (at = find(at, false, self.__handle, resolved[i], NULL)) < now.count; at++) {
                const char *found_key = now.at[at].map_key;
                if (after && howdah_compare(map_key, found_key, after) <= 0) continue;
                if (first && howdah_compare(map_key, found_key, first) < 0) continue;
                if (end && howdah_compare(map_key, found_key, end) >= 0) continue;
                if (!next || howdah_compare(map_key, found_key, next->map_key) < 0) next = &now.at[at];
            }
            if (!next) break;
            collect(&rows, state, i, next);
            after = next->map_key;
        }
    }
    memset(made, 0, sizeof *made);
    made->rows = rows.count;
    made->key_of.ptr = (uint8_t *)rows.key_of;
    made->key_of.len = rows.count * sizeof(uint32_t);
    made->map_keys = encode(map_key, rows.map_keys, rows.count);
    made->columns = encode(state->row, rows.rows, rows.count);
    return true;
}

bool howdah_operator_state_method_map_state_clear(howdah_operator_state_borrow_map_state_t self, KEYS, ERROR) {
    (void)error;
    return clear_rows(self.__handle, named);
}

bool howdah_operator_state_method_reducing_state_get(howdah_operator_state_borrow_reducing_state_t self, KEYS, howdah_operator_state_rows_t *made, ERROR) {
    (void)error;
    return get_rows(self.__handle, named, made);
}

bool howdah_operator_state_method_reducing_state_add(howdah_operator_state_borrow_reducing_state_t self, KEYS, howdah_operator_state_list_column_t *columns, ERROR) {
    const howdah_state *state = state_of(self.__handle);
    size_t size = state->row->size_bytes;
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    char *rows = howdah_decode(state->row, columns->ptr, count);
    howdah_test_writes++;
    (void)error;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = find(0, false, self.__handle, resolved[i], NULL);
        char *folded = calloc(1, size);
        if (at < now.count) memcpy(folded, now.at[at].row, size);
        howdah_fold(state, folded, at < now.count, rows + i * size);
        drop_all(self.__handle, resolved[i], NULL);
        add((item){ .handle = self.__handle, .key = lasting_row(howdah_the_operator.key, resolved[i]),
                    .row = lasting_row(state->row, folded) });
    }
    return true;
}

bool howdah_operator_state_method_reducing_state_clear(howdah_operator_state_borrow_reducing_state_t self, KEYS, ERROR) {
    (void)error;
    return clear_rows(self.__handle, named);
}

bool howdah_operator_timers_static_timer_service_open(howdah_bindings_string_t *name, howdah_operator_timers_own_timer_service_t *made, ERROR) {
    (void)error;
    for (int32_t i = 0; howdah_the_operator.timers[i]; i++)
        if (strncmp(howdah_the_operator.timers[i]->name, (char *)name->ptr, name->len) == 0) made->__handle = i;
    return true;
}

static bool change_timers(int32_t handle, KEYS, const howdah_operator_types_s64_buffer_t *times, bool set) {
    const char **resolved;
    uint32_t count = resolve(named, &resolved);
    for (uint32_t i = 0; i < count; i++) {
        int64_t time;
        memcpy(&time, times->ptr + i * sizeof time, sizeof time);
        uint32_t at = 0;
        while ((at = find(at, true, handle, resolved[i], NULL)) < now.count && now.at[at].time != time) at++;
        if (set && at == now.count)
            add((item){ .is_timer = true, .handle = handle, .time = time,
                        .key = lasting_row(howdah_the_operator.key, resolved[i]) });
        if (!set && at < now.count) drop(at);
    }
    return true;
}

bool howdah_operator_timers_method_timer_service_set(howdah_operator_timers_borrow_timer_service_t self, KEYS, howdah_operator_timers_s64_buffer_t *times, ERROR) {
    (void)error;
    return change_timers(self.__handle, named, times, true);
}

bool howdah_operator_timers_method_timer_service_delete(howdah_operator_timers_borrow_timer_service_t self, KEYS, howdah_operator_timers_s64_buffer_t *times, ERROR) {
    (void)error;
    return change_timers(self.__handle, named, times, false);
}

int64_t howdah_operator_clock_now(void) {
    return howdah_test_now;
}

void howdah_operator_metrics_counter_add(howdah_bindings_string_t *name, uint64_t amount) {
    (void)name, (void)amount;
}

void howdah_operator_metrics_gauge_set(howdah_bindings_string_t *name, double value) {
    (void)name, (void)value;
}

void howdah_operator_metrics_histogram_record(howdah_bindings_string_t *name, double value) {
    (void)name, (void)value;
}

bool howdah_operator_logging_enabled(howdah_operator_logging_level_t level) {
    (void)level;
    return true;
}

void howdah_operator_logging_log(howdah_operator_logging_level_t level, howdah_bindings_string_t *message) {
    fprintf(stderr, "%d: %.*s\n", level, (int)message->len, (char *)message->ptr);
}

/* ---- What a test calls ---- */

static bool ended(bool ok, const howdah_operator_types_error_t *error) {
    keys = NULL;
    key_count = 0;
    howdah_test_event_count = 0;
    howdah_test_failure = NULL;
    if (!ok) {
        char *message = lasting(error->message.ptr, error->message.len + 1);
        message[error->message.len] = 0;
        howdah_test_failure = message;
    }
    return ok;
}

/* What a call gave lies in its memory, which the next use of that memory takes away. */
static exports_howdah_operator_operator_output_t lasting_output(const exports_howdah_operator_operator_output_t *made) {
    exports_howdah_operator_operator_output_t copy = *made;
    copy.timestamps.ptr = lasting(made->timestamps.ptr, made->timestamps.len);
    if (made->batch.row_kinds.is_some)
        copy.batch.row_kinds.val.ptr = lasting(made->batch.row_kinds.val.ptr, made->batch.row_kinds.val.len);
    size_t columns = made->batch.columns.len;
    copy.batch.columns.ptr = lasting(made->batch.columns.ptr, columns * sizeof(howdah_column));
    for (size_t c = 0; c < columns; c++) {
        howdah_column *column = &copy.batch.columns.ptr[c];
        column->data.ptr = lasting(column->data.ptr, column->data.len);
        if (column->offsets.is_some)
            column->offsets.val.ptr = lasting(column->offsets.val.ptr, column->offsets.val.len);
        if (column->validity.is_some)
            column->validity.val.ptr = lasting(column->validity.val.ptr, column->validity.val.len);
    }
    return copy;
}

static void ended_with(bool ok, const exports_howdah_operator_operator_list_output_t *outputs,
                       const howdah_operator_types_error_t *error) {
    static howdah_event *events;
    if (!ended(ok, error)) return;
    size_t count = outputs->len;
    exports_howdah_operator_operator_output_t *copies = lasting(outputs->ptr, count * sizeof *copies);
    for (size_t o = 0; o < count; o++) copies[o] = lasting_output(&copies[o]);
    for (size_t o = 0; o < count; o++) {
        const exports_howdah_operator_operator_output_t *made = &copies[o];
        const howdah_output *output = howdah_the_operator.outputs[made->port];
        uint32_t rows = made->batch.rows;
        const char *structs = howdah_decode(output->row, made->batch.columns.ptr, rows);
        events = realloc(events, (howdah_test_event_count + rows) * sizeof *events);
        for (uint32_t i = 0; i < rows; i++) {
            howdah_event *event = &events[howdah_test_event_count++];
            event->output = output;
            event->row = lasting_row(output->row, structs + i * output->row->size_bytes);
            event->kind = made->batch.row_kinds.is_some ? made->batch.row_kinds.val.ptr[i] : HOWDAH_INSERT;
            memcpy(&event->timestamp, made->timestamps.ptr + i * 8, 8);
        }
    }
    howdah_test_events = events;
}

static bool open_again(const char *config) {
    howdah_operator_types_error_t error = { 0 };
    exports_howdah_operator_operator_spec_t spec;
    exports_howdah_operator_operator_context_t context = { .parallelism = 1 };
    context.config.ptr = (uint8_t *)config;
    context.config.len = strlen(config);
    if (!ended(exports_howdah_operator_operator_describe(&context.config, &spec, &error), &error))
        return false;
    return ended(exports_howdah_operator_operator_open(&context, &error), &error);
}

bool howdah_test_open(const char *config) {
    now.count = saved.count = 0;
    howdah_test_reads = howdah_test_writes = 0;
    watermark = saved_watermark = INT64_MIN;
    return open_again(config);
}

/* The keys of rows: struct by struct, the members of the input that the key names. */
static void set_keys(const howdah_input *input, const char *rows, uint32_t count, uint32_t *row_keys) {
    const howdah_row *key = howdah_the_operator.key;
    keys = calloc(count, key->size_bytes);
    for (uint32_t i = 0; i < count; i++) {
        char *made = keys + key_count * key->size_bytes;
        const char *row = rows + i * input->row->size_bytes;
        for (uint32_t k = 0; k < key->field_count; k++) {
            const char *name = input->key ? input->key[k] : key->fields[k].name;
            for (uint32_t f = 0; f < input->row->field_count; f++) {
                if (strcmp(input->row->fields[f].name, name) != 0) continue;
                howdah_column column = howdah_encode(&input->row->fields[f], input->row, row, 1);
                const howdah_row one = { &key->fields[k], 1, key->size_bytes };
                char *decoded = howdah_decode(&one, &column, 1);
                size_t offset = key->fields[k].offset;
                size_t end = k + 1 < key->field_count ? key->fields[k + 1].offset : key->size_bytes;
                memcpy(made + offset, decoded + offset, end - offset);
            }
        }
        uint32_t known = 0;
        while (known < key_count && !same(key, keys + known * key->size_bytes, made)) known++;
        if (known == key_count) key_count++;
        row_keys[i] = known;
    }
}

void howdah_test_process(const howdah_input *input, const void *rows, uint32_t count,
                         const int64_t *timestamps) {
    exports_howdah_operator_operator_input_t given = { 0 };
    exports_howdah_operator_operator_list_output_t outputs = { 0 };
    howdah_operator_types_error_t error = { 0 };
    uint32_t *row_keys = howdah_allocate(count * sizeof *row_keys);
    while (howdah_the_operator.inputs[given.port] != input) given.port++;
    set_keys(input, rows, count, row_keys);
    int64_t *times = howdah_allocate(count * sizeof *times);
    for (uint32_t i = 0; i < count; i++) times[i] = timestamps ? timestamps[i] : 0;
    given.batch.rows = count;
    howdah_operator_state_list_column_t columns = encode(input->row, rows, count);
    given.batch.columns.ptr = columns.ptr;
    given.batch.columns.len = columns.len;
    given.timestamps.ptr = (uint8_t *)times;
    given.watermark = watermark;
    given.keys.rows = key_count;
    columns = encode(howdah_the_operator.key, keys, key_count);
    given.keys.columns.ptr = columns.ptr;
    given.row_keys.ptr = (uint8_t *)row_keys;
    bool ok = exports_howdah_operator_operator_process(&given, &outputs, &error);
    ended_with(ok, &outputs, &error);
}

/* The next timer that is due: the first of all. */
static uint32_t next_due(void) {
    uint32_t first = now.count;
    for (uint32_t i = 0; i < now.count; i++) {
        const item *at = &now.at[i];
        if (!at->is_timer) continue;
        int64_t until = howdah_the_operator.timers[at->handle]->processing_time ? howdah_test_now : watermark;
        if (at->time <= until && (first == now.count || at->time < now.at[first].time)) first = i;
    }
    return first;
}

void howdah_test_advance_watermark(int64_t to) {
    howdah_operator_types_error_t error = { 0 };
    watermark = to;
    for (uint32_t at; (at = next_due()) < now.count;) {
        exports_howdah_operator_timer_handler_due_t due = { 0 };
        exports_howdah_operator_timer_handler_list_output_t outputs = { 0 };
        item timer = now.at[at];
        drop(at);
        keys = (char *)timer.key;
        key_count = 1;
        due.timer = (uint32_t)timer.handle;
        due.keys.rows = 1;
        howdah_operator_state_list_column_t columns = encode(howdah_the_operator.key, keys, 1);
        due.keys.columns.ptr = columns.ptr;
        due.times.ptr = (uint8_t *)&timer.time;
        due.watermark = watermark;
        if (!ended(exports_howdah_operator_timer_handler_on_timers(&due, &outputs, &error), &error)) return;
    }
    exports_howdah_operator_watermark_handler_list_output_t outputs = { 0 };
    bool ok = exports_howdah_operator_watermark_handler_on_watermark(watermark, &outputs, &error);
    exports_howdah_operator_operator_list_output_t made = { (void *)outputs.ptr, outputs.len };
    ended_with(ok, &made, &error);
}

void howdah_test_barrier(void) {
    exports_howdah_operator_operator_list_output_t outputs = { 0 };
    howdah_operator_types_error_t error = { 0 };
    bool ok = exports_howdah_operator_operator_on_barrier(++checkpoint, &outputs, &error);
    ended_with(ok, &outputs, &error);
    saved.at = lasting(now.at, now.count * sizeof *now.at);
    saved.count = now.count;
    saved_watermark = watermark;
}

void howdah_test_crash(void) {
    now.at = lasting(saved.at, saved.count * sizeof *saved.at);
    now.count = saved.count;
    watermark = saved_watermark;
    char *config = lasting(howdah_config(), strlen(howdah_config()) + 1);
    howdah_test_check(open_again(config), "the operator opens again", __FILE__, __LINE__);
}

const void *howdah_test_value(const howdah_state *state, const void *key) {
    int32_t handle = 0;
    while (state_of(handle) != state) handle++;
    uint32_t at = find(0, false, handle, key, NULL);
    return at < now.count ? now.at[at].row : NULL;
}
