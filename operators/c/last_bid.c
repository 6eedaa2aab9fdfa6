/* The last bid of each bidder on each auction (Nexmark query 18).
 *
 * The bid with the greatest time is the last; of bids at the same time, the one with the greatest
 * event number. Emits a bid whenever it becomes the last one. */

#include "howdah.h"

/* A bid: what comes in and, if it is the last, goes out. */
typedef struct bid {
    int64_t auction, bidder, price, date_time, seq;
} bid;

static const howdah_field bid_fields[] = {
    HOWDAH_FIELD(bid, auction, HOWDAH_INT64),
    HOWDAH_FIELD(bid, bidder, HOWDAH_INT64),
    HOWDAH_FIELD(bid, price, HOWDAH_INT64),
    HOWDAH_FIELD(bid, date_time, HOWDAH_TIMESTAMP),
    HOWDAH_FIELD(bid, seq, HOWDAH_INT64),
};
static const howdah_row bid_row = HOWDAH_ROW(bid, bid_fields);

/* Whose last bid, on what. */
typedef struct bidder_auction {
    int64_t bidder, auction;
} bidder_auction;

static const howdah_field key_fields[] = {
    HOWDAH_FIELD(bidder_auction, bidder, HOWDAH_INT64),
    HOWDAH_FIELD(bidder_auction, auction, HOWDAH_INT64),
};
static const howdah_row key_row = HOWDAH_ROW(bidder_auction, key_fields);

/* The last bid of a bidder on an auction. */
typedef struct last {
    int64_t price, date_time, seq;
} last;

static const howdah_field last_fields[] = {
    HOWDAH_FIELD(last, price, HOWDAH_INT64),
    HOWDAH_FIELD(last, date_time, HOWDAH_TIMESTAMP),
    HOWDAH_FIELD(last, seq, HOWDAH_INT64),
};
static const howdah_row last_row = HOWDAH_ROW(last, last_fields);

static howdah_state state = { .name = "last", .kind = HOWDAH_VALUE, .row = &last_row };
static howdah_output output = { .name = "output", .row = &bid_row };

static bool is_later(const bid *bid, const last *last) {
    if (bid->date_time != last->date_time) return bid->date_time > last->date_time;
    return bid->seq > last->seq;
}

static void on_bid(const void *row) {
    const bid *bid = row;
    const last *before = howdah_value_get(&state);
    if (!before || is_later(bid, before)) {
        last now = { bid->price, bid->date_time, bid->seq };
        howdah_value_put(&state, &now);
        howdah_emit(&output, bid);
    }
}

static howdah_input input = { .name = "input", .row = &bid_row, .each = on_bid };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &input, NULL },
    .outputs = (howdah_output *const[]){ &output, NULL },
    .states = (howdah_state *const[]){ &state, NULL },
};
