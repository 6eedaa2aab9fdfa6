/* What howdah.h declares, over the generated bindings. Compile it together with an operator. */

#include "howdah.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Memory: an arena that is emptied when the next call begins ---- */

/* In front of each block, so that it can grow. */
typedef union block {
    size_t bytes;
    uint64_t alignment;
} block;

typedef struct chunk {
    struct chunk *next;
    size_t bytes, used;
    size_t padding; /* what follows is aligned to 8 bytes, also with pointers of 4 */
} chunk;

static chunk *arena;
/* Nobody allocates between the end of a call and the moment when the host has read its results. */
static bool call_is_over;

#define SMALLEST_CHUNK_BYTES ((size_t)64 << 10)

static void add_chunk(size_t bytes) {
    chunk *added = malloc(sizeof *added + bytes);
    if (!added) abort();
    added->next = arena;
    added->bytes = bytes;
    added->used = 0;
    arena = added;
}

/* Calls are much alike, so one chunk for all that the last one needed spares the next ones. */
static void empty_arena(void) {
    size_t bytes = 0;
    if (arena && !arena->next) {
        arena->used = 0;
        return;
    }
    while (arena) {
        chunk *next = arena->next;
        bytes += arena->bytes;
        free(arena);
        arena = next;
    }
    add_chunk(bytes < SMALLEST_CHUNK_BYTES ? SMALLEST_CHUNK_BYTES : bytes);
}

void *howdah_allocate(size_t bytes) {
    if (call_is_over || !arena) {
        call_is_over = false;
        empty_arena();
    }
    size_t needed = sizeof(block) + ((bytes + 7) & ~(size_t)7);
    if (arena->bytes - arena->used < needed) {
        size_t doubled = arena->bytes * 2;
        add_chunk(needed > doubled ? needed : doubled);
    }
    block *made = (block *)((char *)(arena + 1) + arena->used);
    arena->used += needed;
    made->bytes = bytes;
    return made + 1;
}

#ifdef __wasm__
static void *howdah_reallocate(void *old, size_t bytes) {
    void *made = howdah_allocate(bytes);
    if (old) {
        size_t had = ((block *)old)[-1].bytes;
        memcpy(made, old, had < bytes ? had : bytes);
    }
    return made;
}

static void howdah_release(void *memory) {
    (void)memory;
}

/* The bindings, with the arena as their heap. */
#define malloc howdah_allocate
#define realloc howdah_reallocate
#define free howdah_release
#include "bindings/howdah_bindings.c"
#undef malloc
#undef realloc
#undef free
/* The type of the component is added when the module becomes one. */
void __component_type_object_force_link_howdah_bindings(void) {
}
#endif

static void *zeroed(size_t bytes) {
    return memset(howdah_allocate(bytes), 0, bytes);
}

/* A list that grows. */
typedef struct list {
    char *items;
    uint32_t count, room;
} list;

static void list_grow(list *to, size_t item_bytes, uint32_t room) {
    void *items = howdah_allocate(room * item_bytes);
    if (to->count) memcpy(items, to->items, to->count * item_bytes);
    to->items = items;
    to->room = room;
}

static void *list_add(list *to, size_t item_bytes) {
    if (to->count == to->room) list_grow(to, item_bytes, to->room ? to->room * 2 : 16);
    return to->items + to->count++ * item_bytes;
}

/* Copies a struct: some words, for which a call of the engine's copy takes longer than the copy. Not wider ones:
   a processor waits before it reads 16 bytes that were just written as two times 8. */
static inline void copy_struct(void *to, const void *from, size_t bytes) {
    char *t = to;
    const char *f = from;
    for (; bytes >= 8; bytes -= 8, t += 8, f += 8) {
        memcpy(t, f, 8);
        __asm__("" : "+r"(t)); /* or it would be made a copy of any length */
    }
    if (bytes & 4) { memcpy(t, f, 4); t += 4; f += 4; }
    if (bytes & 2) { memcpy(t, f, 2); t += 2; f += 2; }
    if (bytes & 1) *t = *f;
}

/* Copies values of 8 bytes that lie so many bytes apart. */
static inline void copy_wide(char *to, size_t to_step, const char *from, size_t from_step, uint32_t count) {
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        memcpy(to, from, 8);
        memcpy(to + to_step, from + from_step, 8);
        memcpy(to + 2 * to_step, from + 2 * from_step, 8);
        memcpy(to + 3 * to_step, from + 3 * from_step, 8);
        to += 4 * to_step;
        from += 4 * from_step;
    }
    for (; i < count; i++, to += to_step, from += from_step) memcpy(to, from, 8);
}

/* ---- The running call ---- */

typedef howdah_operator_types_error_t wit_error;
typedef howdah_operator_state_keys_t wit_keys;
typedef howdah_operator_state_list_column_t wit_columns;
typedef howdah_operator_types_u32_buffer_t wit_buffer;
typedef exports_howdah_operator_operator_list_output_t wit_outputs;

#define NO_KEY UINT32_MAX

static struct {
    bool failed;
    wit_error error;
    uint32_t key;            /* which of the distinct keys the record has; NO_KEY without one */
    uint32_t key_count;
    const howdah_column *keys;
    void *key_structs;
    int64_t timestamp, watermark;
    howdah_kind kind;
    const howdah_batch *batch;     /* for what maps fetch ahead */
    const howdah_input *input;
    const void *rows;
} call;

static char *config;
static uint8_t *config_texts; /* its texts without escapes, each where it is in `config` */
static char *pipeline, *operator_name;
static uint32_t subtask, parallelism;
static bool is_restored;
static uint64_t restored_from;

static void set_text(howdah_bindings_string_t *string, const char *text) {
    string->ptr = (uint8_t *)text;
    string->len = strlen(text);
}

static bool is_continuation(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

/* How many bytes the character of UTF-8 takes that begins here, in a text that ends in 0; 0: none does. */
static uint32_t character_bytes(const uint8_t *at) {
    if (at[0] < 0x80) return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4 || !is_continuation(at[1])) return 0;
    if (at[0] < 0xe0) return 2;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || !is_continuation(at[2])) return 0;
    if (at[0] < 0xf0) return 3;
    if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f) || !is_continuation(at[3])) return 0;
    return 4;
}

#define MESSAGE_BYTES 1024

/* A message in call memory. What is no UTF-8, like a character that is cut off at the end, the host would
   not take: it is shown as `?`. */
static const char *message_of(const char *format, va_list arguments) {
    char *message = howdah_allocate(MESSAGE_BYTES);
    vsnprintf(message, MESSAGE_BYTES, format, arguments);
    for (char *at = message; *at;) {
        uint32_t bytes = character_bytes((const uint8_t *)at);
        if (!bytes) *at = '?';
        at += bytes ? bytes : 1;
    }
    return message;
}

static void fail(uint8_t kind, const char *format, va_list arguments) {
    if (call.failed) return;
    const char *message = message_of(format, arguments);
    call.failed = true;
    call.error.kind = kind;
    set_text(&call.error.message, message);
}

void howdah_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail(HOWDAH_OPERATOR_TYPES_ERROR_KIND_OTHER, format, arguments);
    va_end(arguments);
}

void howdah_fail_config(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail(HOWDAH_OPERATOR_TYPES_ERROR_KIND_INVALID_CONFIG, format, arguments);
    va_end(arguments);
}

bool howdah_failed(void) {
    return call.failed;
}

/* Takes over what a call of the host answered. */
static bool answered(bool ok, wit_error error) {
    if (!ok && !call.failed) {
        call.failed = true;
        call.error = error;
    }
    return ok;
}

#define ANSWERED(CALL) (memset(&error, 0, sizeof error), answered((CALL), error))

const void *howdah_key(void) {
    const howdah_row *row = howdah_the_operator.key;
    if (call.key == NO_KEY) return NULL;
    if (!call.key_structs) call.key_structs = howdah_decode(row, call.keys, call.key_count);
    return (char *)call.key_structs + (size_t)call.key * row->size_bytes;
}

int64_t howdah_timestamp(void) {
    return call.timestamp;
}

int64_t howdah_watermark(void) {
    return call.watermark;
}

howdah_kind howdah_row_kind(void) {
    return call.kind;
}

uint32_t howdah_subtask(void) {
    return subtask;
}

uint32_t howdah_parallelism(void) {
    return parallelism;
}

const char *howdah_pipeline(void) {
    return pipeline;
}

const char *howdah_operator_name(void) {
    return operator_name;
}

bool howdah_restored_from(uint64_t *checkpoint) {
    if (is_restored) *checkpoint = restored_from;
    return is_restored;
}

int64_t howdah_now(void) {
    return howdah_operator_clock_now();
}

void howdah_log(howdah_level level, const char *format, ...) {
    if (!howdah_operator_logging_enabled((uint8_t)level)) return;
    va_list arguments;
    va_start(arguments, format);
    const char *message = message_of(format, arguments);
    va_end(arguments);
    howdah_bindings_string_t text;
    set_text(&text, message);
    howdah_operator_logging_log((uint8_t)level, &text);
}

void howdah_counter_add(const char *name, uint64_t amount) {
    howdah_bindings_string_t text;
    set_text(&text, name);
    howdah_operator_metrics_counter_add(&text, amount);
}

void howdah_gauge_set(const char *name, double value) {
    howdah_bindings_string_t text;
    set_text(&text, name);
    howdah_operator_metrics_gauge_set(&text, value);
}

void howdah_histogram_record(const char *name, double value) {
    howdah_bindings_string_t text;
    set_text(&text, name);
    howdah_operator_metrics_histogram_record(&text, value);
}

/* ---- Configuration ---- */

const char *howdah_config(void) {
    return config ? config : "{}";
}

static const char *skip_text(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

/* The four digits of an escape. */
static uint32_t text_code(const char *digits) {
    char copied[5] = { 0 };
    strncpy(copied, digits, 4);
    return (uint32_t)strtoul(copied, NULL, 16);
}

static uint8_t *put_utf8(uint8_t *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (uint8_t)code;
        return to;
    }
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd; /* half a pair */
    uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (uint8_t)((0xff00u >> (more + 1)) | (code >> (6 * more)));
    while (more--) *to++ = (uint8_t)(0x80 | ((code >> (6 * more)) & 63));
    return to;
}

/* A text of JSON without its quotes and escapes, which is not longer. Gives its length. */
static uint32_t decode_text(const char *at, uint8_t *to) {
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    uint8_t *begin = to;
    for (at++; *at && *at != '"'; at++) {
        if (*at != '\\' || !at[1]) {
            *to++ = (uint8_t)*at;
            continue;
        }
        const char *escape = strchr(escapes, *++at);
        if (*at != 'u') {
            *to++ = (uint8_t)(escape ? meant[escape - escapes] : *at);
            continue;
        }
        uint32_t code = text_code(at + 1);
        for (int digit = 0; digit < 4 && at[1]; digit++) at++;
        if (code >= 0xd800 && code < 0xdc00 && at[1] == '\\' && at[2] == 'u') {
            uint32_t low = text_code(at + 3);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                for (int digit = 0; digit < 6 && at[1]; digit++) at++;
            }
        }
        to = put_utf8(to, code);
    }
    return (uint32_t)(to - begin);
}

/* Where the value of a member of the first level begins. */
static const char *config_value(const char *name) {
    size_t length = strlen(name);
    int depth = 0;
    for (const char *at = config; at && *at;) {
        if (*at == '"') {
            const char *end = skip_text(at);
            const char *after = end + strspn(end, " \t\r\n");
            uint8_t *text = config_texts + (at - config);
            bool named = depth == 1 && *after == ':' && decode_text(at, text) == length &&
                         memcmp(text, name, length) == 0;
            if (named) return after + 1 + strspn(after + 1, " \t\r\n");
            at = end;
        } else {
            if (*at == '{' || *at == '[') depth++;
            if (*at == '}' || *at == ']') depth--;
            at++;
        }
    }
    return NULL;
}

bool howdah_config_text(const char *name, howdah_bytes *value) {
    const char *at = config_value(name);
    if (!at) return false;
    if (*at != '"') {
        howdah_fail_config("`%s` is no text", name);
        return false;
    }
    uint8_t *text = config_texts + (at - config);
    value->length = decode_text(at, text);
    value->data = text;
    return true;
}

int64_t howdah_config_int64(const char *name, int64_t otherwise) {
    const char *at = config_value(name);
    if (!at) return otherwise;
    char *end;
    errno = 0;
    long long value = strtoll(at, &end, 10);
    if (end == at || errno || *end == '.' || *end == 'e' || *end == 'E')
        howdah_fail_config("`%s` is no whole number", name);
    return value;
}

/* ---- Columns ---- */

static size_t width_bytes(howdah_type type) {
    switch (type) {
        case HOWDAH_BOOLEAN: return 1;
        case HOWDAH_INT32: case HOWDAH_FLOAT32: case HOWDAH_DATE: return 4;
        case HOWDAH_INT64: case HOWDAH_FLOAT64: case HOWDAH_TIMESTAMP: return 8;
        case HOWDAH_DECIMAL128: return 16;
        case HOWDAH_UTF8: case HOWDAH_BINARY: return sizeof(howdah_bytes);
    }
    return 0;
}

static bool has_offsets(howdah_type type) {
    return type == HOWDAH_UTF8 || type == HOWDAH_BINARY;
}

static bool is_null(const howdah_field *field, const char *row) {
    return field->nullable && *(const bool *)(row + field->null_offset);
}

howdah_column howdah_encode(const howdah_field *field, const howdah_row *row, const void *structs,
                            uint32_t count) {
    howdah_column column;
    memset(&column, 0, sizeof column);
    const char *first = structs;
    size_t size = row->size_bytes, width = width_bytes(field->type);
    if (field->nullable) {
        uint8_t *bits = NULL;
        for (uint32_t i = 0; i < count; i++) {
            if (!is_null(field, first + i * size)) continue;
            if (!bits) {
                size_t bytes = (count + 7) / 8;
                bits = memset(howdah_allocate(bytes), 0xFF, bytes);
                if (count % 8) bits[count / 8] = (uint8_t)((1u << count % 8) - 1);
                column.validity.is_some = true;
                column.validity.val.ptr = bits;
                column.validity.val.len = bytes;
            }
            bits[i / 8] &= (uint8_t)~(1u << i % 8);
        }
    }
    const char *member = first + field->offset;
    if (field->type == HOWDAH_BOOLEAN) {
        column.data.len = (count + 7) / 8;
        column.data.ptr = zeroed(column.data.len);
        for (uint32_t i = 0; i < count; i++)
            if (*(const bool *)(member + i * size) && !is_null(field, first + i * size))
                column.data.ptr[i / 8] |= (uint8_t)(1u << i % 8);
    } else if (has_offsets(field->type)) {
        uint32_t *offsets = howdah_allocate(((size_t)count + 1) * sizeof *offsets);
        uint32_t end = offsets[0] = 0;
        for (uint32_t i = 0; i < count; i++) {
            const howdah_bytes *bytes = (const howdah_bytes *)(member + i * size);
            uint32_t length = is_null(field, first + i * size) ? 0 : bytes->length;
            if (length > UINT32_MAX / 2 - end) {
                howdah_fail("column `%s` has more than 2 GiB", field->name);
                length = 0;
            }
            offsets[i + 1] = end += length;
        }
        column.data.ptr = howdah_allocate(end);
        for (uint32_t i = 0; i < count; i++) {
            const howdah_bytes *bytes = (const howdah_bytes *)(member + i * size);
            uint32_t length = offsets[i + 1] - offsets[i];
            if (length) memcpy(column.data.ptr + offsets[i], bytes->data, length);
        }
        column.data.len = end;
        column.offsets.is_some = true;
        column.offsets.val.ptr = (uint8_t *)offsets;
        column.offsets.val.len = ((size_t)count + 1) * sizeof *offsets;
    } else {
        column.data.len = count * width;
        char *to = howdah_allocate(column.data.len);
        column.data.ptr = (uint8_t *)to;
        if (width == 8) {
            copy_wide(to, 8, member, size, count);
        } else {
            for (uint32_t i = 0; i < count; i++) memcpy(to + i * width, member + i * size, width);
        }
    }
    return column;
}

/* Whether a column has as much as its type and the number of rows ask for. */
static bool fits(const howdah_field *field, const howdah_column *column, uint32_t count) {
    size_t bits = ((size_t)count + 7) / 8;
    if (column->validity.is_some && column->validity.val.len != bits) return false;
    if (field->type == HOWDAH_BOOLEAN) return column->data.len == bits;
    if (!has_offsets(field->type)) return column->data.len == count * width_bytes(field->type);
    return column->offsets.is_some &&
           column->offsets.val.len == ((size_t)count + 1) * sizeof(uint32_t);
}

void *howdah_decode(const howdah_row *row, const howdah_column *columns, uint32_t count) {
    size_t size = row->size_bytes;
    char *structs = zeroed(size * count);
    for (uint32_t f = 0; f < row->field_count; f++) {
        const howdah_field *field = &row->fields[f];
        const howdah_column *column = &columns[f];
        char *member = structs + field->offset;
        const char *data = (const char *)column->data.ptr;
        if (!fits(field, column, count)) {
            howdah_fail("column `%s` does not have %u values", field->name, (unsigned)count);
            return structs;
        }
        if (field->type == HOWDAH_BOOLEAN) {
            for (uint32_t i = 0; i < count; i++)
                *(bool *)(member + i * size) = howdah_bit(column->data.ptr, i);
        } else if (has_offsets(field->type)) {
            for (uint32_t i = 0; i < count; i++)
                *(howdah_bytes *)(member + i * size) = howdah_bytes_at(column, i);
        } else {
            size_t width = width_bytes(field->type);
            if (width == 8) {
                copy_wide(member, size, data, 8, count);
            } else {
                for (uint32_t i = 0; i < count; i++)
                    memcpy(member + i * size, data + i * width, width);
            }
        }
        if (column->validity.is_some && field->nullable)
            for (uint32_t i = 0; i < count; i++)
                *(bool *)(structs + i * size + field->null_offset) = howdah_is_null(column, i);
    }
    return structs;
}

static wit_columns encode_all(const howdah_row *row, const void *structs, uint32_t count) {
    wit_columns columns;
    columns.len = row->field_count;
    columns.ptr = howdah_allocate(sizeof *columns.ptr * row->field_count);
    for (uint32_t f = 0; f < row->field_count; f++)
        columns.ptr[f] = howdah_encode(&row->fields[f], row, structs, count);
    return columns;
}

static void *copy_row(const howdah_row *row, const void *from) {
    void *to = howdah_allocate(row->size_bytes);
    copy_struct(to, from, row->size_bytes);
    return to;
}

/* Compares the members of a field: the order of the contract. */
static int compare(const howdah_field *field, const char *a, const char *b) {
    bool a_null = is_null(field, a), b_null = is_null(field, b);
    if (a_null || b_null) return b_null - a_null;
    a += field->offset;
    b += field->offset;
#define ORDER(TYPE)                                \
    do {                                           \
        TYPE x, y;                                 \
        memcpy(&x, a, sizeof x);                   \
        memcpy(&y, b, sizeof y);                   \
        return (x > y) - (x < y);                  \
    } while (0)
    switch (field->type) {
        case HOWDAH_BOOLEAN: ORDER(bool);
        case HOWDAH_INT32: case HOWDAH_DATE: ORDER(int32_t);
        case HOWDAH_INT64: case HOWDAH_TIMESTAMP: ORDER(int64_t);
        case HOWDAH_FLOAT32: {
            /* IEEE 754's total order, so that NaN has a place and the zeros differ. */
            int32_t x, y;
            memcpy(&x, a, sizeof x);
            memcpy(&y, b, sizeof y);
            x ^= (int32_t)((uint32_t)(x >> 31) >> 1);
            y ^= (int32_t)((uint32_t)(y >> 31) >> 1);
            return (x > y) - (x < y);
        }
        case HOWDAH_FLOAT64: {
            int64_t x, y;
            memcpy(&x, a, sizeof x);
            memcpy(&y, b, sizeof y);
            x ^= (int64_t)((uint64_t)(x >> 63) >> 1);
            y ^= (int64_t)((uint64_t)(y >> 63) >> 1);
            return (x > y) - (x < y);
        }
        case HOWDAH_DECIMAL128: {
            const howdah_decimal *x = (const howdah_decimal *)a, *y = (const howdah_decimal *)b;
            if (x->high != y->high) return x->high < y->high ? -1 : 1;
            return (x->low > y->low) - (x->low < y->low);
        }
        case HOWDAH_UTF8: case HOWDAH_BINARY: {
            const howdah_bytes *x = (const howdah_bytes *)a, *y = (const howdah_bytes *)b;
            uint32_t length = x->length < y->length ? x->length : y->length;
            int order = length ? memcmp(x->data, y->data, length) : 0;
            return order ? order : (x->length > y->length) - (x->length < y->length);
        }
    }
#undef ORDER
    return 0;
}

/* Compares rows, field by field. */
int howdah_compare(const howdah_row *row, const void *a, const void *b) {
    for (uint32_t f = 0; f < row->field_count; f++) {
        int order = compare(&row->fields[f], a, b);
        if (order) return order;
    }
    return 0;
}

static bool same_rows(const howdah_row *row, const void *a, const void *b) {
    return howdah_compare(row, a, b) == 0;
}

/* ---- Keys of calls to the host ---- */

static wit_keys current_keys(void) {
    wit_keys keys;
    memset(&keys, 0, sizeof keys);
    keys.tag = HOWDAH_OPERATOR_STATE_KEYS_CURRENT;
    return keys;
}

static wit_buffer indices(const uint32_t *from, uint32_t count) {
    wit_buffer buffer = { (uint8_t *)from, count * sizeof *from };
    return buffer;
}

static wit_keys selected_keys(const uint32_t *keys, uint32_t count) {
    wit_keys made = current_keys();
    made.tag = HOWDAH_OPERATOR_STATE_KEYS_SELECTED;
    made.val.selected = indices(keys, count);
    return made;
}

/* The batch's keys with these ascending indices; all of them need no list. */
static wit_keys some_keys(const list *keys) {
    if (keys->count == call.key_count) return current_keys();
    return selected_keys((const uint32_t *)keys->items, keys->count);
}

static bool has_key(const char *name) {
    if (call.key == NO_KEY)
        howdah_fail("`%s` has a key only while a row or a timer is processed", name);
    return call.key != NO_KEY;
}

/* ---- States ---- */

/* What the running batch did to a key. */
enum { UNTOUCHED, PUT, DELETED };

/* An entry of a map, known or written. */
typedef struct entry {
    uint32_t key, next; /* the next of the same hash, from 1 */
    const void *map_key;
    const void *known;  /* what the host has */
    const void *written;
    uint8_t is_known, change;
} entry;

/* What the running batch knows of a state, and did to it. Indexed by key where not said. */
struct howdah_loaded {
    bool is_loaded;
    const uint8_t *present; /* a bitmap; NULL: all */
    char *rows;             /* of a value or reducing state */
    uint8_t *changes;
    const void **written;
    bool changed;
    list *added;            /* of a list: rows of each key that the batch appended */
    char **lists;           /* of a list: where the rows of a key begin */
    uint32_t *counts;
    list entries;           /* of a map */
    uint32_t *buckets;      /* of a map: entries by hash, from 1 */
    uint32_t bucket_count;
    bool has_fetched;
    list add_keys, add_rows; /* of a reducing state: what was added, in order */
};

static struct howdah_loaded *of_batch(howdah_state *state) {
    if (!state->loaded) {
        state->loaded = zeroed(sizeof *state->loaded);
        state->loaded->changes = zeroed(call.key_count);
        state->loaded->written = zeroed(call.key_count * sizeof(void *));
    }
    return state->loaded;
}

static bool ready(howdah_state *state, howdah_state_kind kind) {
    if (state->kind != kind) howdah_fail("state `%s` is of another kind", state->name);
    return state->kind == kind && has_key(state->name) && !call.failed;
}

static howdah_operator_state_borrow_value_state_t value_handle(const howdah_state *state) {
    howdah_operator_state_borrow_value_state_t handle = { state->handle };
    return handle;
}

static howdah_operator_state_borrow_list_state_t list_handle(const howdah_state *state) {
    howdah_operator_state_borrow_list_state_t handle = { state->handle };
    return handle;
}

static howdah_operator_state_borrow_map_state_t map_handle(const howdah_state *state) {
    howdah_operator_state_borrow_map_state_t handle = { state->handle };
    return handle;
}

static howdah_operator_state_borrow_reducing_state_t reducing_handle(const howdah_state *state) {
    howdah_operator_state_borrow_reducing_state_t handle = { state->handle };
    return handle;
}

static bool is_present(const struct howdah_loaded *loaded, uint32_t key) {
    return !loaded->present || howdah_bit(loaded->present, key);
}

static const void *loaded_row(const howdah_state *state, uint32_t key) {
    const struct howdah_loaded *loaded = state->loaded;
    return is_present(loaded, key) ? loaded->rows + (size_t)key * state->row->size_bytes : NULL;
}

/* Loads the rows of a value or reducing state. */
static void load_rows(howdah_state *state) {
    struct howdah_loaded *loaded = of_batch(state);
    wit_keys keys = current_keys();
    howdah_operator_state_rows_t rows;
    wit_error error;
    loaded->is_loaded = true;
    bool ok = state->kind == HOWDAH_VALUE
        ? ANSWERED(howdah_operator_state_method_value_state_get(value_handle(state), &keys, &rows, &error))
        : ANSWERED(howdah_operator_state_method_reducing_state_get(reducing_handle(state), &keys, &rows, &error));
    if (!ok) {
        loaded->present = zeroed((call.key_count + 7) / 8);
        return;
    }
    loaded->present = rows.present.is_some ? rows.present.val.ptr : NULL;
    loaded->rows = howdah_decode(state->row, rows.columns.ptr, call.key_count);
}

const void *howdah_value_get(howdah_state *state) {
    if (!ready(state, HOWDAH_VALUE)) return NULL;
    struct howdah_loaded *loaded = of_batch(state);
    if (loaded->changes[call.key] != UNTOUCHED) return loaded->written[call.key];
    if (!loaded->is_loaded) load_rows(state);
    return call.failed ? NULL : loaded_row(state, call.key);
}

static void change_value(howdah_state *state, uint8_t change, const void *row) {
    if (!ready(state, HOWDAH_VALUE)) return;
    struct howdah_loaded *loaded = of_batch(state);
    loaded->changed = true;
    loaded->changes[call.key] = change;
    loaded->written[call.key] = row;
}

void howdah_value_put(howdah_state *state, const void *row) {
    change_value(state, PUT, copy_row(state->row, row));
}

void howdah_value_delete(howdah_state *state) {
    change_value(state, DELETED, NULL);
}

const howdah_column *howdah_value_load(howdah_state *state, const uint8_t **present) {
    wit_keys keys = current_keys();
    howdah_operator_state_rows_t rows;
    wit_error error;
    if (!ANSWERED(howdah_operator_state_method_value_state_get(value_handle(state), &keys, &rows, &error))) {
        *present = zeroed((call.key_count + 7) / 8);
        return encode_all(state->row, zeroed((size_t)call.key_count * state->row->size_bytes), call.key_count).ptr;
    }
    *present = rows.present.is_some ? rows.present.val.ptr : NULL;
    return rows.columns.ptr;
}

void howdah_value_store(howdah_state *state, const howdah_column *columns) {
    wit_keys keys = current_keys();
    wit_columns given = { (howdah_column *)columns, state->row->field_count };
    wit_error error;
    (void)ANSWERED(howdah_operator_state_method_value_state_put(value_handle(state), &keys, &given, &error));
}

static void commit_value(howdah_state *state) {
    struct howdah_loaded *loaded = state->loaded;
    list put = { 0 }, rows = { 0 }, deleted = { 0 };
    wit_error error;
    if (!loaded->changed) return;
    list_grow(&put, sizeof(uint32_t), call.key_count);
    list_grow(&rows, state->row->size_bytes, call.key_count);
    for (uint32_t key = 0; key < call.key_count; key++) {
        const void *before = loaded->is_loaded ? loaded_row(state, key) : NULL;
        const void *after = loaded->written[key];
        if (loaded->changes[key] == PUT) {
            if (before && same_rows(state->row, before, after)) continue;
            *(uint32_t *)list_add(&put, sizeof key) = key;
            copy_struct(list_add(&rows, state->row->size_bytes), after, state->row->size_bytes);
        } else if (loaded->changes[key] == DELETED && (before || !loaded->is_loaded)) {
            *(uint32_t *)list_add(&deleted, sizeof key) = key;
        }
    }
    if (put.count) {
        wit_keys keys = some_keys(&put);
        wit_columns columns = encode_all(state->row, rows.items, rows.count);
        (void)ANSWERED(howdah_operator_state_method_value_state_put(value_handle(state), &keys, &columns, &error));
    }
    if (deleted.count) {
        wit_keys keys = some_keys(&deleted);
        (void)ANSWERED(howdah_operator_state_method_value_state_delete(value_handle(state), &keys, &error));
    }
}

/* ---- Keys of the caller's ---- */

static bool named_keys(const char *what, const char *name, const void *keys, uint32_t count, wit_keys *made) {
    if (call.key_count) {
        howdah_fail("%s `%s`: while rows are processed it works on the key of the record", what, name);
        return false;
    }
    const howdah_row *row = howdah_the_operator.key;
    *made = current_keys();
    made->tag = HOWDAH_OPERATOR_STATE_KEYS_EXPLICIT;
    made->val.explicit_.rows = count;
    wit_columns columns = encode_all(row, keys, count);
    made->val.explicit_.columns.ptr = columns.ptr;
    made->val.explicit_.columns.len = columns.len;
    return !call.failed;
}

static bool explicit_keys(const howdah_state *state, const void *keys, uint32_t count, wit_keys *made) {
    return named_keys("state", state->name, keys, count, made);
}

/* For rows that each have a key of their own. */
static wit_buffer each_its_own(uint32_t count) {
    uint32_t *own = howdah_allocate(count * sizeof *own);
    for (uint32_t i = 0; i < count; i++) own[i] = i;
    return indices(own, count);
}

/* Pointers to rows, NULL for what has none. */
static const void **pointers(const howdah_state *state, const howdah_operator_state_rows_t *rows, uint32_t count) {
    const void **found = zeroed(count * sizeof *found);
    char *structs = howdah_decode(state->row, rows->columns.ptr, count);
    for (uint32_t i = 0; i < count; i++)
        if (!rows->present.is_some || howdah_bit(rows->present.val.ptr, i))
            found[i] = structs + (size_t)i * state->row->size_bytes;
    return found;
}

const void **howdah_value_get_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    howdah_operator_state_rows_t rows;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)
        || !ANSWERED(howdah_operator_state_method_value_state_get(value_handle(state), &named, &rows, &error)))
        return zeroed(count * sizeof(void *));
    return pointers(state, &rows, count);
}

void howdah_value_put_many(howdah_state *state, const void *keys, const void *rows, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    wit_columns columns = encode_all(state->row, rows, count);
    (void)ANSWERED(howdah_operator_state_method_value_state_put(value_handle(state), &named, &columns, &error));
}

void howdah_value_delete_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    (void)ANSWERED(howdah_operator_state_method_value_state_delete(value_handle(state), &named, &error));
}

uint32_t howdah_list_get_many(howdah_state *state, const void *keys, uint32_t count,
                              const uint32_t **key_of, const void **rows) {
    wit_keys named;
    howdah_operator_state_list_rows_t found;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)
        || !ANSWERED(howdah_operator_state_method_list_state_get(list_handle(state), &named, UINT32_MAX, &found, &error)))
        return 0;
    *key_of = (const uint32_t *)found.key_of.ptr;
    *rows = howdah_decode(state->row, found.columns.ptr, found.rows);
    return call.failed ? 0 : found.rows;
}

void howdah_list_append_many(howdah_state *state, const void *keys, const void *rows, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    wit_buffer of = each_its_own(count);
    wit_columns columns = encode_all(state->row, rows, count);
    (void)ANSWERED(howdah_operator_state_method_list_state_append(list_handle(state), &named, &of, &columns, &error));
}

void howdah_list_clear_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    (void)ANSWERED(howdah_operator_state_method_list_state_clear(list_handle(state), &named, &error));
}

const void **howdah_map_get_many(howdah_state *state, const void *keys, const void *map_keys, uint32_t count) {
    wit_keys named;
    howdah_operator_state_rows_t rows;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return zeroed(count * sizeof(void *));
    wit_buffer of = each_its_own(count);
    wit_columns at = encode_all(state->map_key, map_keys, count);
    if (!ANSWERED(howdah_operator_state_method_map_state_get(map_handle(state), &named, &of, &at, &rows, &error)))
        return zeroed(count * sizeof(void *));
    return pointers(state, &rows, count);
}

void howdah_map_put_many(howdah_state *state, const void *keys, const void *map_keys, const void *rows,
                         uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    wit_buffer of = each_its_own(count);
    wit_columns at = encode_all(state->map_key, map_keys, count), columns = encode_all(state->row, rows, count);
    (void)ANSWERED(howdah_operator_state_method_map_state_put(map_handle(state), &named, &of, &at, &columns, &error));
}

void howdah_map_delete_many(howdah_state *state, const void *keys, const void *map_keys, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    wit_buffer of = each_its_own(count);
    wit_columns at = encode_all(state->map_key, map_keys, count);
    (void)ANSWERED(howdah_operator_state_method_map_state_delete(map_handle(state), &named, &of, &at, &error));
}

uint32_t howdah_map_entries_many(howdah_state *state, const void *keys, uint32_t count,
                                 const uint32_t **key_of, const void **map_keys, const void **rows) {
    wit_keys named;
    howdah_operator_state_map_range_t range;
    howdah_operator_state_map_rows_t found;
    wit_error error;
    memset(&range, 0, sizeof range);
    if (!explicit_keys(state, keys, count, &named)
        || !ANSWERED(howdah_operator_state_method_map_state_entries(map_handle(state), &named, &range, UINT32_MAX, &found, &error)))
        return 0;
    *key_of = (const uint32_t *)found.key_of.ptr;
    *map_keys = howdah_decode(state->map_key, found.map_keys.ptr, found.rows);
    *rows = howdah_decode(state->row, found.columns.ptr, found.rows);
    return call.failed ? 0 : found.rows;
}

void howdah_map_clear_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    (void)ANSWERED(howdah_operator_state_method_map_state_clear(map_handle(state), &named, &error));
}

const void **howdah_reducing_get_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    howdah_operator_state_rows_t rows;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)
        || !ANSWERED(howdah_operator_state_method_reducing_state_get(reducing_handle(state), &named, &rows, &error)))
        return zeroed(count * sizeof(void *));
    return pointers(state, &rows, count);
}

void howdah_reducing_add_many(howdah_state *state, const void *keys, const void *rows, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    wit_columns columns = encode_all(state->row, rows, count);
    (void)ANSWERED(howdah_operator_state_method_reducing_state_add(reducing_handle(state), &named, &columns, &error));
}

void howdah_reducing_clear_many(howdah_state *state, const void *keys, uint32_t count) {
    wit_keys named;
    wit_error error;
    if (!explicit_keys(state, keys, count, &named)) return;
    (void)ANSWERED(howdah_operator_state_method_reducing_state_clear(reducing_handle(state), &named, &error));
}

static void change_many(howdah_timers *timers, const void *keys, const int64_t *times, uint32_t count, bool is_set) {
    howdah_operator_timers_borrow_timer_service_t handle = { timers->handle };
    howdah_operator_types_s64_buffer_t at = { (uint8_t *)times, count * sizeof *times };
    wit_keys named;
    wit_error error;
    if (!named_keys("timers", timers->name, keys, count, &named)) return;
    if (is_set)
        (void)ANSWERED(howdah_operator_timers_method_timer_service_set(handle, &named, &at, &error));
    else
        (void)ANSWERED(howdah_operator_timers_method_timer_service_delete(handle, &named, &at, &error));
}

void howdah_timer_set_many(howdah_timers *timers, const void *keys, const int64_t *times, uint32_t count) {
    change_many(timers, keys, times, count, true);
}

void howdah_timer_delete_many(howdah_timers *timers, const void *keys, const int64_t *times, uint32_t count) {
    change_many(timers, keys, times, count, false);
}

/* ---- Lists ---- */

static struct howdah_loaded *list_of_batch(howdah_state *state) {
    struct howdah_loaded *loaded = of_batch(state);
    if (!loaded->added) loaded->added = zeroed(call.key_count * sizeof(list));
    return loaded;
}

void howdah_list_append(howdah_state *state, const void *row) {
    if (!ready(state, HOWDAH_LIST)) return;
    struct howdah_loaded *loaded = list_of_batch(state);
    loaded->changed = true;
    memcpy(list_add(&loaded->added[call.key], state->row->size_bytes), row, state->row->size_bytes);
}

void howdah_list_clear(howdah_state *state) {
    if (!ready(state, HOWDAH_LIST)) return;
    struct howdah_loaded *loaded = list_of_batch(state);
    loaded->changed = true;
    loaded->changes[call.key] = DELETED;
    loaded->added[call.key].count = 0;
}

static void load_lists(howdah_state *state) {
    struct howdah_loaded *loaded = of_batch(state);
    wit_keys keys = current_keys();
    howdah_operator_state_list_rows_t rows;
    wit_error error;
    loaded->is_loaded = true;
    loaded->lists = zeroed(call.key_count * sizeof *loaded->lists);
    loaded->counts = zeroed(call.key_count * sizeof *loaded->counts);
    if (!ANSWERED(howdah_operator_state_method_list_state_get(list_handle(state), &keys, UINT32_MAX, &rows, &error)))
        return;
    char *structs = howdah_decode(state->row, rows.columns.ptr, rows.rows);
    const uint32_t *key_of = (const uint32_t *)rows.key_of.ptr;
    for (uint32_t i = 0; i < rows.rows; i++) {
        if (!loaded->counts[key_of[i]]++)
            loaded->lists[key_of[i]] = structs + (size_t)i * state->row->size_bytes;
    }
}

const void *howdah_list_get(howdah_state *state, uint32_t *count) {
    *count = 0;
    if (!ready(state, HOWDAH_LIST)) return NULL;
    struct howdah_loaded *loaded = list_of_batch(state);
    const list *added = &loaded->added[call.key];
    size_t size = state->row->size_bytes;
    uint32_t stored = 0;
    if (loaded->changes[call.key] != DELETED) {
        if (!loaded->is_loaded) load_lists(state);
        stored = loaded->counts[call.key];
    }
    *count = stored + added->count;
    if (!added->count) return stored ? loaded->lists[call.key] : NULL;
    if (!stored) return added->items;
    char *both = howdah_allocate(*count * size);
    memcpy(both, loaded->lists[call.key], stored * size);
    memcpy(both + stored * size, added->items, added->count * size);
    return both;
}

static void commit_list(howdah_state *state) {
    struct howdah_loaded *loaded = state->loaded;
    list cleared = { 0 }, key_of = { 0 }, rows = { 0 };
    size_t size = state->row->size_bytes;
    wit_error error;
    if (!loaded->changed) return;
    for (uint32_t key = 0; key < call.key_count; key++) {
        if (loaded->changes[key] == DELETED) *(uint32_t *)list_add(&cleared, sizeof key) = key;
        for (uint32_t i = 0; i < loaded->added[key].count; i++) {
            *(uint32_t *)list_add(&key_of, sizeof key) = key;
            memcpy(list_add(&rows, size), loaded->added[key].items + i * size, size);
        }
    }
    if (cleared.count) {
        wit_keys keys = some_keys(&cleared);
        (void)ANSWERED(howdah_operator_state_method_list_state_clear(list_handle(state), &keys, &error));
    }
    if (rows.count) {
        wit_keys keys = current_keys();
        wit_buffer of = indices((const uint32_t *)key_of.items, key_of.count);
        wit_columns columns = encode_all(state->row, rows.items, rows.count);
        (void)ANSWERED(howdah_operator_state_method_list_state_append(list_handle(state), &keys, &of, &columns, &error));
    }
}

/* ---- Maps ---- */

static uint32_t hash_bytes(uint32_t hash, const void *data, size_t length) {
    for (size_t i = 0; i < length; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 16777619u;
    return hash;
}

static uint32_t hash_entry(const howdah_state *state, uint32_t key, const char *map_key) {
    uint32_t hash = hash_bytes(2166136261u, &key, sizeof key);
    for (uint32_t f = 0; f < state->map_key->field_count; f++) {
        const howdah_field *field = &state->map_key->fields[f];
        const char *member = map_key + field->offset;
        if (has_offsets(field->type)) {
            const howdah_bytes *bytes = (const howdah_bytes *)member;
            hash = hash_bytes(hash, bytes->data, bytes->length);
        } else {
            hash = hash_bytes(hash, member, width_bytes(field->type));
        }
    }
    return hash;
}

static void index_entry(const howdah_state *state, uint32_t index) {
    struct howdah_loaded *loaded = state->loaded;
    entry *added = (entry *)loaded->entries.items + index;
    uint32_t *bucket = &loaded->buckets[hash_entry(state, added->key, added->map_key) & (loaded->bucket_count - 1)];
    added->next = *bucket;
    *bucket = index + 1;
}

/* The entry of a key under a map key; made if there is none. */
static entry *find_entry(howdah_state *state, uint32_t key, const void *map_key) {
    struct howdah_loaded *loaded = of_batch(state);
    if (loaded->entries.count >= loaded->bucket_count) {
        loaded->bucket_count = loaded->bucket_count ? loaded->bucket_count * 4 : 64;
        loaded->buckets = zeroed(loaded->bucket_count * sizeof *loaded->buckets);
        for (uint32_t i = 0; i < loaded->entries.count; i++) index_entry(state, i);
    }
    uint32_t at = loaded->buckets[hash_entry(state, key, map_key) & (loaded->bucket_count - 1)];
    while (at) {
        entry *found = (entry *)loaded->entries.items + at - 1;
        if (found->key == key && same_rows(state->map_key, found->map_key, map_key)) return found;
        at = found->next;
    }
    entry *made = list_add(&loaded->entries, sizeof *made);
    memset(made, 0, sizeof *made);
    made->key = key;
    made->map_key = copy_row(state->map_key, map_key);
    index_entry(state, loaded->entries.count - 1);
    return made;
}

static void fetch_entries(howdah_state *state, const list *key_of, const list *map_keys) {
    wit_keys keys = current_keys();
    wit_buffer of = indices((const uint32_t *)key_of->items, key_of->count);
    wit_columns named = encode_all(state->map_key, map_keys->items, map_keys->count);
    howdah_operator_state_rows_t rows;
    wit_error error;
    if (!ANSWERED(howdah_operator_state_method_map_state_get(map_handle(state), &keys, &of, &named, &rows, &error)))
        return;
    char *structs = howdah_decode(state->row, rows.columns.ptr, key_of->count);
    for (uint32_t i = 0; i < key_of->count; i++) {
        uint32_t key = ((const uint32_t *)key_of->items)[i];
        entry *found = find_entry(state, key, map_keys->items + (size_t)i * state->map_key->size_bytes);
        found->is_known = true;
        if (!rows.present.is_some || howdah_bit(rows.present.val.ptr, i))
            found->known = structs + (size_t)i * state->row->size_bytes;
    }
}

/* Fetches what the rows of the batch will ask for. */
static void fetch_ahead(howdah_state *state) {
    struct howdah_loaded *loaded = of_batch(state);
    list key_of = { 0 }, map_keys = { 0 };
    if (loaded->has_fetched || !state->prefetch || !call.rows) return;
    loaded->has_fetched = true;
    void *map_key = howdah_allocate(state->map_key->size_bytes);
    for (uint32_t i = 0; i < call.batch->rows; i++) {
        const char *row = (const char *)call.rows + (size_t)i * call.input->row->size_bytes;
        memset(map_key, 0, state->map_key->size_bytes);
        if (!state->prefetch(row, map_key)) continue;
        entry *found = find_entry(state, call.batch->row_keys[i], map_key);
        if (found->is_known) continue;
        found->is_known = true;
        *(uint32_t *)list_add(&key_of, sizeof(uint32_t)) = found->key;
        memcpy(list_add(&map_keys, state->map_key->size_bytes), map_key, state->map_key->size_bytes);
    }
    if (key_of.count) fetch_entries(state, &key_of, &map_keys);
}

const void *howdah_map_get(howdah_state *state, const void *map_key) {
    if (!ready(state, HOWDAH_MAP)) return NULL;
    struct howdah_loaded *loaded = of_batch(state);
    fetch_ahead(state);
    entry *found = find_entry(state, call.key, map_key);
    if (found->change != UNTOUCHED) return found->written;
    if (loaded->changes[call.key] == DELETED) return NULL;
    if (!found->is_known) {
        list key_of = { (char *)&call.key, 1, 1 }, map_keys = { (char *)map_key, 1, 1 };
        fetch_entries(state, &key_of, &map_keys);
        found = find_entry(state, call.key, map_key);
    }
    return found->known;
}

static void change_entry(howdah_state *state, const void *map_key, uint8_t change, const void *row) {
    if (!ready(state, HOWDAH_MAP)) return;
    of_batch(state)->changed = true;
    entry *found = find_entry(state, call.key, map_key);
    found->change = change;
    found->written = row;
}

void howdah_map_put(howdah_state *state, const void *map_key, const void *row) {
    change_entry(state, map_key, PUT, copy_row(state->row, row));
}

void howdah_map_delete(howdah_state *state, const void *map_key) {
    change_entry(state, map_key, DELETED, NULL);
}

void howdah_map_clear(howdah_state *state) {
    if (!ready(state, HOWDAH_MAP)) return;
    struct howdah_loaded *loaded = of_batch(state);
    loaded->changed = true;
    loaded->changes[call.key] = DELETED;
    for (uint32_t i = 0; i < loaded->entries.count; i++) {
        entry *of_map = (entry *)loaded->entries.items + i;
        if (of_map->key == call.key) of_map->change = UNTOUCHED;
    }
}

static void commit_map(howdah_state *state) {
    struct howdah_loaded *loaded = state->loaded;
    list cleared = { 0 }, put_keys = { 0 }, put_map_keys = { 0 }, rows = { 0 };
    list deleted_keys = { 0 }, deleted_map_keys = { 0 };
    size_t map_key_size = state->map_key->size_bytes, size = state->row->size_bytes;
    wit_keys current = current_keys();
    wit_error error;
    if (!loaded->changed) return;
    for (uint32_t key = 0; key < call.key_count; key++)
        if (loaded->changes[key] == DELETED) *(uint32_t *)list_add(&cleared, sizeof key) = key;
    for (uint32_t i = 0; i < loaded->entries.count; i++) {
        const entry *of_map = (const entry *)loaded->entries.items + i;
        bool is_cleared = loaded->changes[of_map->key] == DELETED;
        const void *before = is_cleared ? NULL : of_map->known;
        if (of_map->change == PUT) {
            if (before && same_rows(state->row, before, of_map->written)) continue;
            *(uint32_t *)list_add(&put_keys, sizeof(uint32_t)) = of_map->key;
            memcpy(list_add(&put_map_keys, map_key_size), of_map->map_key, map_key_size);
            memcpy(list_add(&rows, size), of_map->written, size);
        } else if (of_map->change == DELETED && !is_cleared && (before || !of_map->is_known)) {
            *(uint32_t *)list_add(&deleted_keys, sizeof(uint32_t)) = of_map->key;
            memcpy(list_add(&deleted_map_keys, map_key_size), of_map->map_key, map_key_size);
        }
    }
    if (cleared.count) {
        wit_keys keys = some_keys(&cleared);
        (void)ANSWERED(howdah_operator_state_method_map_state_clear(map_handle(state), &keys, &error));
    }
    if (put_keys.count) {
        wit_buffer of = indices((const uint32_t *)put_keys.items, put_keys.count);
        wit_columns named = encode_all(state->map_key, put_map_keys.items, put_keys.count);
        wit_columns columns = encode_all(state->row, rows.items, rows.count);
        (void)ANSWERED(howdah_operator_state_method_map_state_put(map_handle(state), &current, &of, &named, &columns, &error));
    }
    if (deleted_keys.count) {
        wit_buffer of = indices((const uint32_t *)deleted_keys.items, deleted_keys.count);
        wit_columns named = encode_all(state->map_key, deleted_map_keys.items, deleted_keys.count);
        (void)ANSWERED(howdah_operator_state_method_map_state_delete(map_handle(state), &current, &of, &named, &error));
    }
}

static howdah_operator_state_option_list_column_t bound(const howdah_state *state, const void *map_key) {
    howdah_operator_state_option_list_column_t made;
    memset(&made, 0, sizeof made);
    made.is_some = map_key != NULL;
    if (map_key) made.val = encode_all(state->map_key, map_key, 1);
    return made;
}

uint32_t howdah_map_entries(howdah_state *state, const void *first, const void *end,
                            uint32_t limit, const void **map_keys, const void **rows) {
    if (!ready(state, HOWDAH_MAP)) return 0;
    /* What the batch wrote so far takes part, so the host has to know of it. */
    if (state->loaded) {
        commit_map(state);
        state->loaded = NULL;
        if (call.failed) return 0;
    }
    wit_keys key = selected_keys(&call.key, 1);
    howdah_operator_state_map_range_t range = { bound(state, first), bound(state, end) };
    howdah_operator_state_map_rows_t found;
    wit_error error;
    if (!ANSWERED(howdah_operator_state_method_map_state_entries(map_handle(state), &key, &range, limit, &found, &error)))
        return 0;
    *map_keys = howdah_decode(state->map_key, found.map_keys.ptr, found.rows);
    *rows = howdah_decode(state->row, found.columns.ptr, found.rows);
    return call.failed ? 0 : found.rows;
}

/* ---- Reducing states ---- */

/* Adds a number to another; the host, which folds for good, refuses what is too large. */
static void add_number(const howdah_field *field, char *sum, const char *added) {
#define ADD(TYPE, WRAPPING)                                     \
    do {                                                        \
        TYPE a, b;                                              \
        memcpy(&a, sum, sizeof a);                              \
        memcpy(&b, added, sizeof b);                            \
        a = (TYPE)((WRAPPING)a + (WRAPPING)b);                  \
        memcpy(sum, &a, sizeof a);                              \
    } while (0)
    switch (field->type) {
        case HOWDAH_INT32: ADD(int32_t, uint32_t); break;
        case HOWDAH_INT64: ADD(int64_t, uint64_t); break;
        case HOWDAH_FLOAT32: ADD(float, float); break;
        case HOWDAH_FLOAT64: ADD(double, double); break;
        case HOWDAH_DECIMAL128: {
            howdah_decimal *a = (howdah_decimal *)sum;
            const howdah_decimal *b = (const howdah_decimal *)added;
            uint64_t low = a->low + b->low;
            a->high = (int64_t)((uint64_t)a->high + (uint64_t)b->high + (low < b->low));
            a->low = low;
            break;
        }
        default: howdah_fail("field `%s` is no number: it has no sum", field->name);
    }
#undef ADD
}

static void set_null(const howdah_field *field, char *row, bool null) {
    if (field->nullable) *(bool *)(row + field->null_offset) = null;
}

/* Folds a row into another as the host will; `has_row` says whether there was one. */
void howdah_fold(const howdah_state *state, char *into, bool has_row, const char *added) {
    for (uint32_t f = 0; f < state->row->field_count; f++) {
        const howdah_field *field = &state->row->fields[f];
        howdah_reducer reducer = state->reducers[f];
        bool has = has_row && !is_null(field, into);
        if (reducer == HOWDAH_COUNT) {
            int64_t count = 0;
            if (has) memcpy(&count, into + field->offset, sizeof count);
            count += !is_null(field, added);
            memcpy(into + field->offset, &count, sizeof count);
            set_null(field, into, false);
            continue;
        }
        if (is_null(field, added)) {
            set_null(field, into, !has);
            continue;
        }
        bool take = !has || reducer == HOWDAH_LAST;
        if (has && reducer == HOWDAH_MIN) take = compare(field, added, into) < 0;
        if (has && reducer == HOWDAH_MAX) take = compare(field, added, into) > 0;
        if (has && reducer == HOWDAH_SUM) add_number(field, into + field->offset, added + field->offset);
        if (take) memcpy(into + field->offset, added + field->offset, width_bytes(field->type));
        set_null(field, into, false);
    }
}

/* Folds what was added into the row of its key, as far as that is loaded. */
static void fold_added(howdah_state *state, uint32_t key, const void *added) {
    struct howdah_loaded *loaded = state->loaded;
    const void *before = loaded->written[key];
    if (!before && loaded->changes[key] != DELETED) before = loaded_row(state, key);
    char *row = zeroed(state->row->size_bytes);
    if (before) memcpy(row, before, state->row->size_bytes);
    howdah_fold(state, row, before != NULL, added);
    loaded->written[key] = row;
}

void howdah_reducing_add(howdah_state *state, const void *row) {
    if (!ready(state, HOWDAH_REDUCING)) return;
    struct howdah_loaded *loaded = of_batch(state);
    loaded->changed = true;
    *(uint32_t *)list_add(&loaded->add_keys, sizeof call.key) = call.key;
    memcpy(list_add(&loaded->add_rows, state->row->size_bytes), row, state->row->size_bytes);
    if (loaded->is_loaded) fold_added(state, call.key, row);
}

const void *howdah_reducing_get(howdah_state *state) {
    if (!ready(state, HOWDAH_REDUCING)) return NULL;
    struct howdah_loaded *loaded = of_batch(state);
    if (!loaded->is_loaded) {
        load_rows(state);
        if (call.failed) return NULL;
        const uint32_t *keys = (const uint32_t *)loaded->add_keys.items;
        for (uint32_t i = 0; i < loaded->add_keys.count; i++)
            fold_added(state, keys[i], loaded->add_rows.items + (size_t)i * state->row->size_bytes);
    }
    if (loaded->written[call.key]) return loaded->written[call.key];
    return loaded->changes[call.key] == DELETED ? NULL : loaded_row(state, call.key);
}

void howdah_reducing_clear(howdah_state *state) {
    if (!ready(state, HOWDAH_REDUCING)) return;
    struct howdah_loaded *loaded = of_batch(state);
    uint32_t *keys = (uint32_t *)loaded->add_keys.items, kept = 0;
    size_t size = state->row->size_bytes;
    for (uint32_t i = 0; i < loaded->add_keys.count; i++) {
        if (keys[i] == call.key) continue;
        keys[kept] = keys[i];
        memmove(loaded->add_rows.items + kept++ * size, loaded->add_rows.items + i * size, size);
    }
    loaded->add_keys.count = loaded->add_rows.count = kept;
    loaded->changed = true;
    loaded->changes[call.key] = DELETED;
    loaded->written[call.key] = NULL;
}

static void commit_reducing(howdah_state *state) {
    struct howdah_loaded *loaded = state->loaded;
    list cleared = { 0 };
    wit_error error;
    if (!loaded->changed) return;
    for (uint32_t key = 0; key < call.key_count; key++)
        if (loaded->changes[key] == DELETED) *(uint32_t *)list_add(&cleared, sizeof key) = key;
    if (cleared.count) {
        wit_keys keys = some_keys(&cleared);
        (void)ANSWERED(howdah_operator_state_method_reducing_state_clear(reducing_handle(state), &keys, &error));
    }
    if (loaded->add_keys.count) {
        wit_keys keys = selected_keys((const uint32_t *)loaded->add_keys.items, loaded->add_keys.count);
        wit_columns columns = encode_all(state->row, loaded->add_rows.items, loaded->add_rows.count);
        (void)ANSWERED(howdah_operator_state_method_reducing_state_add(reducing_handle(state), &keys, &columns, &error));
    }
}

/* ---- Timers ---- */

/* Timers that the batch set or deleted, in order. */
struct howdah_changes {
    list keys, times, is_set;
};

static void change_timer(howdah_timers *timers, int64_t time, bool is_set) {
    if (!has_key(timers->name)) return;
    if (!timers->changes) timers->changes = zeroed(sizeof *timers->changes);
    *(uint32_t *)list_add(&timers->changes->keys, sizeof call.key) = call.key;
    *(int64_t *)list_add(&timers->changes->times, sizeof time) = time;
    *(bool *)list_add(&timers->changes->is_set, sizeof is_set) = is_set;
}

void howdah_timer_set(howdah_timers *timers, int64_t time) {
    change_timer(timers, time, true);
}

void howdah_timer_delete(howdah_timers *timers, int64_t time) {
    change_timer(timers, time, false);
}

/* One call for each run of changes of a kind, since their order matters. */
static void commit_timers(howdah_timers *timers) {
    struct howdah_changes *changes = timers->changes;
    howdah_operator_timers_borrow_timer_service_t handle = { timers->handle };
    wit_error error;
    if (!changes) return;
    const bool *is_set = (const bool *)changes->is_set.items;
    for (uint32_t from = 0, to; from < changes->keys.count && !call.failed; from = to) {
        for (to = from; to < changes->keys.count && is_set[to] == is_set[from];) to++;
        wit_keys keys = selected_keys((const uint32_t *)changes->keys.items + from, to - from);
        howdah_operator_types_s64_buffer_t times = {
            (uint8_t *)((int64_t *)changes->times.items + from), (to - from) * sizeof(int64_t)
        };
        if (is_set[from])
            (void)ANSWERED(howdah_operator_timers_method_timer_service_set(handle, &keys, &times, &error));
        else
            (void)ANSWERED(howdah_operator_timers_method_timer_service_delete(handle, &keys, &times, &error));
    }
}

/* ---- What is emitted ---- */

struct howdah_pending {
    list rows, kinds, times;
    bool is_columns;
    exports_howdah_operator_operator_output_t columns;
};

static struct howdah_pending *pending(howdah_output *output) {
    if (!output->pending) {
        output->pending = zeroed(sizeof *output->pending);
        if (call.batch && call.rows) {
            /* Most emit a row for a row. */
            list_grow(&output->pending->rows, output->row->size_bytes, call.batch->rows);
            list_grow(&output->pending->times, sizeof(int64_t), call.batch->rows);
        }
    }
    return output->pending;
}

void howdah_emit_at(howdah_output *output, howdah_kind kind, int64_t timestamp, const void *row) {
    struct howdah_pending *to = pending(output);
    if (kind != HOWDAH_INSERT && !output->changelog) {
        howdah_fail("a row that is no insert was emitted, but output `%s` is no changelog: declare "
                    "it with .changelog = true", output->name);
        return;
    }
    copy_struct(list_add(&to->rows, output->row->size_bytes), row, output->row->size_bytes);
    *(int64_t *)list_add(&to->times, sizeof timestamp) = timestamp;
    if (output->changelog) *(uint8_t *)list_add(&to->kinds, 1) = (uint8_t)kind;
}

void howdah_emit_kind(howdah_output *output, howdah_kind kind, const void *row) {
    howdah_emit_at(output, kind, call.timestamp, row);
}

void howdah_emit(howdah_output *output, const void *row) {
    howdah_emit_at(output, HOWDAH_INSERT, call.timestamp, row);
}

void howdah_emit_columns(howdah_output *output, uint32_t rows, const howdah_column *columns,
                         const uint8_t *timestamps, const uint8_t *kinds) {
    struct howdah_pending *to = pending(output);
    to->is_columns = true;
    to->columns.batch.rows = rows;
    to->columns.batch.columns.ptr = (howdah_column *)columns;
    to->columns.batch.columns.len = output->row->field_count;
    to->columns.timestamps.ptr = (uint8_t *)timestamps;
    to->columns.timestamps.len = rows * sizeof(int64_t);
    to->columns.batch.row_kinds.is_some = output->changelog;
    if (output->changelog) {
        to->columns.batch.row_kinds.val.ptr = kinds ? (uint8_t *)kinds : zeroed(rows);
        to->columns.batch.row_kinds.val.len = rows;
    }
}

static exports_howdah_operator_operator_output_t finish_output(howdah_output *output) {
    struct howdah_pending *from = output->pending;
    if (!from->is_columns) {
        wit_columns columns = encode_all(output->row, from->rows.items, from->rows.count);
        howdah_emit_columns(output, from->rows.count, columns.ptr, (uint8_t *)from->times.items,
                            (uint8_t *)from->kinds.items);
    }
    return from->columns;
}

/* ---- Exports ---- */

#define FOR_EACH(TYPE, NAME, LIST) \
    for (TYPE *const *NAME##_at = (LIST), *NAME; NAME##_at && (NAME = *NAME##_at); NAME##_at++)

static uint32_t count_of(const void *list_of_pointers) {
    const void *const *at = list_of_pointers;
    uint32_t count = 0;
    while (at && at[count]) count++;
    return count;
}

static void begin_call(void) {
    memset(&call.failed, 0, sizeof call.failed);
    call.key = NO_KEY;
    call.key_count = 0;
    call.key_structs = NULL;
    call.rows = NULL;
    call.kind = HOWDAH_INSERT;
    call.timestamp = call.watermark;
    FOR_EACH(howdah_state, state, howdah_the_operator.states) state->loaded = NULL;
    FOR_EACH(howdah_timers, timers, howdah_the_operator.timers) timers->changes = NULL;
    FOR_EACH(howdah_output, output, howdah_the_operator.outputs) output->pending = NULL;
}

static bool end_call(wit_error *error) {
    if (call.failed) *error = call.error;
    call_is_over = true;
    return !call.failed;
}

/* Writes what the batch changed, and hands over what it emitted. */
static bool finish(wit_outputs *made, wit_error *error) {
    FOR_EACH(howdah_state, state, howdah_the_operator.states) {
        if (!state->loaded || call.failed) continue;
        if (state->kind == HOWDAH_VALUE) commit_value(state);
        if (state->kind == HOWDAH_LIST) commit_list(state);
        if (state->kind == HOWDAH_MAP) commit_map(state);
        if (state->kind == HOWDAH_REDUCING) commit_reducing(state);
    }
    FOR_EACH(howdah_timers, timers, howdah_the_operator.timers) if (!call.failed) commit_timers(timers);
    uint32_t port = 0;
    made->len = 0;
    made->ptr = howdah_allocate(count_of(howdah_the_operator.outputs) * sizeof *made->ptr);
    FOR_EACH(howdah_output, output, howdah_the_operator.outputs) {
        if (output->pending && !call.failed) {
            made->ptr[made->len] = finish_output(output);
            made->ptr[made->len++].port = port;
        }
        port++;
    }
    return end_call(error);
}

static exports_howdah_operator_operator_list_field_t describe_fields(const howdah_row *row) {
    exports_howdah_operator_operator_list_field_t fields;
    fields.len = row->field_count;
    fields.ptr = zeroed(fields.len * sizeof *fields.ptr);
    for (uint32_t f = 0; f < row->field_count; f++) {
        set_text(&fields.ptr[f].name, row->fields[f].name);
        fields.ptr[f].type.tag = (uint8_t)row->fields[f].type;
        fields.ptr[f].type.val.decimal128.precision = row->fields[f].precision;
        fields.ptr[f].type.val.decimal128.scale = row->fields[f].scale;
        fields.ptr[f].nullable = row->fields[f].nullable;
    }
    return fields;
}

static void describe_input(const howdah_input *input, exports_howdah_operator_operator_input_spec_t *spec) {
    const howdah_row *key = howdah_the_operator.key;
    set_text(&spec->name, input->name);
    spec->fields = describe_fields(input->row);
    spec->changelog = input->changelog;
    spec->key.len = key->field_count;
    spec->key.ptr = zeroed(key->field_count * sizeof *spec->key.ptr);
    for (uint32_t k = 0; k < key->field_count; k++) {
        const char *name = input->key ? input->key[k] : key->fields[k].name;
        const howdah_field *found = NULL;
        for (uint32_t f = 0; f < input->row->field_count; f++)
            if (strcmp(input->row->fields[f].name, name) == 0) found = &input->row->fields[f];
        if (!found || found->type != key->fields[k].type || found->nullable)
            howdah_fail("key field `%s` is no field of input `%s`, or has another type there", name, input->name);
        set_text(&spec->key.ptr[k], name);
    }
    if (!input->each == !input->batch)
        howdah_fail("input `%s` needs one of .each and .batch", input->name);
}

/* Whether two names are one, upper and lower case alike. */
static bool same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        char x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a, y = *b >= 'A' && *b <= 'Z' ? *b + 32 : *b;
        if (x != y) return false;
    }
    return *a == *b;
}

static void check_column(const howdah_state *state, const char *what, const char *name, const char *of,
                         const char *other) {
    if (same_name(name, other))
        howdah_fail("state `%s`: its %s `%s` is called like a %s: rename it", state->name, what, name, of);
}

/* Key and fields are columns of one table: no two may have a name. The key is called as in the first input. */
static void check_columns(const howdah_state *state) {
    const howdah_row *key = howdah_the_operator.key, *map_key = state->kind == HOWDAH_MAP ? state->map_key : NULL;
    const char *const *named = howdah_the_operator.inputs[0]->key;
    for (uint32_t k = 0; k < key->field_count; k++) {
        const char *name = named ? named[k] : key->fields[k].name;
        for (uint32_t m = 0; map_key && m < map_key->field_count; m++)
            check_column(state, "map key field", map_key->fields[m].name, "key field", name);
        for (uint32_t f = 0; f < state->row->field_count; f++)
            check_column(state, "field", state->row->fields[f].name, "key field", name);
    }
    for (uint32_t m = 0; map_key && m < map_key->field_count; m++)
        for (uint32_t f = 0; f < state->row->field_count; f++)
            check_column(state, "field", state->row->fields[f].name, "map key field", map_key->fields[m].name);
}

static void describe_state(const howdah_state *state, exports_howdah_operator_operator_state_spec_t *spec) {
    check_columns(state);
    set_text(&spec->name, state->name);
    spec->fields = describe_fields(state->row);
    spec->schema_version = state->schema_version ? state->schema_version : 1;
    spec->ttl.is_some = state->ttl_ms != 0;
    spec->ttl.val.millis = state->ttl_ms;
    spec->ttl.val.update = state->ttl_on_read ? EXPORTS_HOWDAH_OPERATOR_OPERATOR_TTL_UPDATE_ON_READ_AND_WRITE
                                              : EXPORTS_HOWDAH_OPERATOR_OPERATOR_TTL_UPDATE_ON_WRITE;
    spec->kind.tag = (uint8_t)state->kind;
    if (state->kind == HOWDAH_MAP) spec->kind.val.map = describe_fields(state->map_key);
    if (state->kind == HOWDAH_REDUCING) {
        spec->kind.val.reducing.len = state->row->field_count;
        spec->kind.val.reducing.ptr = howdah_allocate(state->row->field_count);
        for (uint32_t f = 0; f < state->row->field_count; f++)
            spec->kind.val.reducing.ptr[f] = (uint8_t)state->reducers[f];
    }
}

/* Keeps a text past the running call. */
static void keep(char **kept, const howdah_bindings_string_t *given) {
    free(*kept);
    *kept = malloc(given->len + 1);
    if (!*kept) abort();
    if (given->len) memcpy(*kept, given->ptr, given->len);
    (*kept)[given->len] = 0;
}

static void keep_config(const howdah_bindings_string_t *given) {
    keep(&config, given);
    free(config_texts);
    config_texts = malloc(given->len + 1);
    if (!config_texts) abort();
}

bool exports_howdah_operator_operator_describe(howdah_bindings_string_t *given,
                                               exports_howdah_operator_operator_spec_t *spec,
                                               exports_howdah_operator_operator_error_t *error) {
    const howdah_operator *op = &howdah_the_operator;
    begin_call();
    keep_config(given);
    memset(spec, 0, sizeof *spec);
    spec->inputs.ptr = zeroed(count_of(op->inputs) * sizeof *spec->inputs.ptr);
    spec->outputs.ptr = zeroed(count_of(op->outputs) * sizeof *spec->outputs.ptr);
    spec->states.ptr = zeroed(count_of(op->states) * sizeof *spec->states.ptr);
    spec->timers.ptr = zeroed(count_of(op->timers) * sizeof *spec->timers.ptr);
    FOR_EACH(howdah_input, input, op->inputs) describe_input(input, &spec->inputs.ptr[spec->inputs.len++]);
    FOR_EACH(howdah_output, output, op->outputs) {
        exports_howdah_operator_operator_output_spec_t *made = &spec->outputs.ptr[spec->outputs.len++];
        set_text(&made->name, output->name);
        made->fields = describe_fields(output->row);
        made->changelog = output->changelog;
    }
    FOR_EACH(howdah_state, state, op->states) describe_state(state, &spec->states.ptr[spec->states.len++]);
    FOR_EACH(howdah_timers, timers, op->timers) {
        exports_howdah_operator_operator_timer_spec_t *made = &spec->timers.ptr[spec->timers.len++];
        set_text(&made->name, timers->name);
        made->domain = timers->processing_time ? EXPORTS_HOWDAH_OPERATOR_OPERATOR_TIME_DOMAIN_PROCESSING_TIME
                                               : EXPORTS_HOWDAH_OPERATOR_OPERATOR_TIME_DOMAIN_EVENT_TIME;
    }
    if (op->configure) op->configure();
    return end_call(error);
}

static void open_state(howdah_state *state) {
    howdah_bindings_string_t name;
    wit_error error;
    set_text(&name, state->name);
    howdah_operator_state_own_value_state_t value = { 0 };
    howdah_operator_state_own_list_state_t list_state = { 0 };
    howdah_operator_state_own_map_state_t map = { 0 };
    howdah_operator_state_own_reducing_state_t reducing = { 0 };
    switch (state->kind) {
        case HOWDAH_VALUE:
            (void)ANSWERED(howdah_operator_state_static_value_state_open(&name, &value, &error));
            state->handle = value.__handle;
            break;
        case HOWDAH_LIST:
            (void)ANSWERED(howdah_operator_state_static_list_state_open(&name, &list_state, &error));
            state->handle = list_state.__handle;
            break;
        case HOWDAH_MAP:
            (void)ANSWERED(howdah_operator_state_static_map_state_open(&name, &map, &error));
            state->handle = map.__handle;
            break;
        case HOWDAH_REDUCING:
            (void)ANSWERED(howdah_operator_state_static_reducing_state_open(&name, &reducing, &error));
            state->handle = reducing.__handle;
            break;
    }
}

bool exports_howdah_operator_operator_open(exports_howdah_operator_operator_context_t *context,
                                           exports_howdah_operator_operator_error_t *failure) {
    call.watermark = INT64_MIN;
    begin_call();
    keep_config(&context->config);
    keep(&pipeline, &context->pipeline);
    keep(&operator_name, &context->operator_);
    is_restored = context->restored_from.is_some;
    restored_from = context->restored_from.val;
    subtask = context->subtask;
    parallelism = context->parallelism;
    FOR_EACH(howdah_state, state, howdah_the_operator.states) open_state(state);
    FOR_EACH(howdah_timers, timers, howdah_the_operator.timers) {
        howdah_operator_timers_own_timer_service_t handle = { 0 };
        howdah_bindings_string_t name;
        wit_error error;
        set_text(&name, timers->name);
        (void)ANSWERED(howdah_operator_timers_static_timer_service_open(&name, &handle, &error));
        timers->handle = handle.__handle;
    }
    if (howdah_the_operator.configure) howdah_the_operator.configure();
    if (howdah_the_operator.open && !call.failed) howdah_the_operator.open();
    return end_call(failure);
}

static void process_rows(const howdah_input *input, const howdah_batch *batch) {
    const char *rows = howdah_decode(input->row, batch->columns, batch->rows);
    call.rows = rows;
    for (uint32_t i = 0; i < batch->rows && !call.failed; i++) {
        call.key = batch->row_keys[i];
        memcpy(&call.timestamp, batch->timestamps + (size_t)i * 8, 8);
        if (batch->kinds) call.kind = (howdah_kind)batch->kinds[i];
        input->each(rows + (size_t)i * input->row->size_bytes);
    }
}

bool exports_howdah_operator_operator_process(exports_howdah_operator_operator_input_t *given,
                                              wit_outputs *made,
                                              exports_howdah_operator_operator_error_t *error) {
    begin_call();
    howdah_batch batch = {
        .rows = given->batch.rows,
        .columns = given->batch.columns.ptr,
        .kinds = given->batch.row_kinds.is_some ? given->batch.row_kinds.val.ptr : NULL,
        .timestamps = given->timestamps.ptr,
        .row_keys = (const uint32_t *)given->row_keys.ptr,
        .key_count = given->keys.rows,
        .keys = given->keys.columns.ptr,
    };
    call.keys = batch.keys;
    call.key_count = batch.key_count;
    call.watermark = call.timestamp = given->watermark;
    call.batch = &batch;
    if (given->port >= count_of(howdah_the_operator.inputs)) {
        howdah_fail("there is no input %u", (unsigned)given->port);
    } else {
        call.input = howdah_the_operator.inputs[given->port];
        if (call.input->batch) call.input->batch(&batch);
        else process_rows(call.input, &batch);
    }
    call.key = NO_KEY;
    return finish(made, error);
}

bool exports_howdah_operator_timer_handler_on_timers(exports_howdah_operator_timer_handler_due_t *due,
                                                     exports_howdah_operator_timer_handler_list_output_t *made,
                                                     exports_howdah_operator_timer_handler_error_t *error) {
    begin_call();
    call.keys = due->keys.columns.ptr;
    call.key_count = due->keys.rows;
    call.watermark = due->watermark;
    const howdah_timers *timers = howdah_the_operator.timers[due->timer];
    for (uint32_t i = 0; i < due->keys.rows && !call.failed; i++) {
        call.key = i;
        memcpy(&call.timestamp, due->times.ptr + (size_t)i * 8, 8);
        timers->fired(call.timestamp);
    }
    call.key = NO_KEY;
    wit_outputs outputs;
    bool ok = finish(&outputs, error);
    made->ptr = (void *)outputs.ptr;
    made->len = outputs.len;
    return ok;
}

bool exports_howdah_operator_watermark_handler_on_watermark(
    int64_t watermark, exports_howdah_operator_watermark_handler_list_output_t *made,
    exports_howdah_operator_watermark_handler_error_t *error) {
    call.watermark = watermark;
    begin_call();
    if (howdah_the_operator.on_watermark) howdah_the_operator.on_watermark(watermark);
    wit_outputs outputs;
    bool ok = finish(&outputs, error);
    made->ptr = (void *)outputs.ptr;
    made->len = outputs.len;
    return ok;
}

bool exports_howdah_operator_operator_on_barrier(uint64_t checkpoint, wit_outputs *made,
                                                 exports_howdah_operator_operator_error_t *error) {
    begin_call();
    if (howdah_the_operator.on_barrier) howdah_the_operator.on_barrier(checkpoint);
    return finish(made, error);
}

bool exports_howdah_operator_checkpoint_handler_on_checkpoint_complete(
    uint64_t checkpoint, exports_howdah_operator_checkpoint_handler_error_t *error) {
    begin_call();
    if (howdah_the_operator.on_checkpoint_complete)
        howdah_the_operator.on_checkpoint_complete(checkpoint);
    return end_call(error);
}

bool exports_howdah_operator_operator_close(wit_outputs *made,
                                            exports_howdah_operator_operator_error_t *error) {
    begin_call();
    if (howdah_the_operator.close) howdah_the_operator.close();
    return finish(made, error);
}
