/* Emits each bid that is the highest of its auction so far. */

#include "howdah.h"

/* A bid: what comes in and, if it is the highest, goes out. */
typedef struct bid {
    int64_t auction, price, at;
} bid;

static const howdah_field bid_fields[] = {
    HOWDAH_FIELD(bid, auction, HOWDAH_INT64),
    HOWDAH_FIELD(bid, price, HOWDAH_INT64),
    HOWDAH_FIELD(bid, at, HOWDAH_TIMESTAMP),
};
static const howdah_row bid_row = HOWDAH_ROW(bid, bid_fields);

/* Rows are grouped by this. */
typedef struct auction {
    int64_t auction;
} auction;

static const howdah_field auction_fields[] = { HOWDAH_FIELD(auction, auction, HOWDAH_INT64) };
static const howdah_row auction_row = HOWDAH_ROW(auction, auction_fields);

/* The highest bid on an auction. */
typedef struct highest {
    int64_t price;
} highest;

static const howdah_field highest_fields[] = { HOWDAH_FIELD(highest, price, HOWDAH_INT64) };
static const howdah_row highest_row = HOWDAH_ROW(highest, highest_fields);

static howdah_state state = { .name = "highest", .kind = HOWDAH_VALUE, .row = &highest_row };
static howdah_output records = { .name = "records", .row = &bid_row };

static void on_bid(const void *row) {
    const bid *bid = row;
    const highest *before = howdah_value_get(&state);
    if (before && before->price >= bid->price) return;
    highest now = { bid->price };
    howdah_value_put(&state, &now);
    howdah_emit(&records, bid);
}

static howdah_input bids = { .name = "bids", .row = &bid_row, .each = on_bid };

const howdah_operator howdah_the_operator = {
    .key = &auction_row,
    .inputs = (howdah_input *const[]){ &bids, NULL },
    .outputs = (howdah_output *const[]){ &records, NULL },
    .states = (howdah_state *const[]){ &state, NULL },
};
