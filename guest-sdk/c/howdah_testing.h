/* Runs an operator natively, over states in memory. Compile howdah_testing.c with the operator,
 * howdah.c and a test; needs no host and no WebAssembly. */
#ifndef HOWDAH_TESTING_H
#define HOWDAH_TESTING_H

#include "howdah.h"

/* A row that the operator emitted. Valid until the next call. */
typedef struct howdah_event {
    const howdah_output *output;
    const void *row;
    howdah_kind kind;
    int64_t timestamp;
} howdah_event;

/* What the last call emitted, and why it failed (NULL: it did not). */
extern const howdah_event *howdah_test_events;
extern uint32_t howdah_test_event_count;
extern const char *howdah_test_failure;

/* How often the operator called functions of states. */
extern uint32_t howdah_test_reads, howdah_test_writes;

/* What the operator's clock shows. */
extern int64_t howdah_test_now;

/* Starts the operator anew, without state. Gives whether it took the configuration. */
bool howdah_test_open(const char *config);
/* Hands over rows, structs of the input, as one batch. `timestamps` may be NULL. */
void howdah_test_process(const howdah_input *input, const void *rows, uint32_t count,
                         const int64_t *timestamps);
/* Fires the timers that are due, then calls on_watermark. What timers emitted is lost. */
void howdah_test_advance_watermark(int64_t watermark);
/* Takes a checkpoint, which a crash goes back to. */
void howdah_test_barrier(void);
void howdah_test_crash(void);
/* The row of a key in a value or reducing state, or NULL. */
const void *howdah_test_value(const howdah_state *state, const void *key);

/* Ends the test with a message if something does not hold. */
#define HOWDAH_CHECK(WHAT) howdah_test_check((WHAT), #WHAT, __FILE__, __LINE__)
void howdah_test_check(bool holds, const char *what, const char *file, int line);

#endif
