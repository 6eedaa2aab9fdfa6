/* Count, lowest, highest and sum of the prices bid on each auction.
 *
 * Emits the new figures of an auction with every bid on it. */

#include "howdah.h"

/* A bid. Its other columns do not matter here. */
typedef struct bid {
    int64_t auction, price;
} bid;

static const howdah_field bid_fields[] = {
    HOWDAH_FIELD(bid, auction, HOWDAH_INT64),
    HOWDAH_FIELD(bid, price, HOWDAH_INT64),
};
static const howdah_row bid_row = HOWDAH_ROW(bid, bid_fields);

/* What the figures are about. */
typedef struct auction {
    int64_t auction;
} auction;

static const howdah_field key_fields[] = { HOWDAH_FIELD(auction, auction, HOWDAH_INT64) };
static const howdah_row key_row = HOWDAH_ROW(auction, key_fields);

/* The figures of an auction so far. */
typedef struct totals {
    int64_t bids, min_price, max_price, sum_price;
} totals;

static const howdah_field totals_fields[] = {
    HOWDAH_FIELD(totals, bids, HOWDAH_INT64),
    HOWDAH_FIELD(totals, min_price, HOWDAH_INT64),
    HOWDAH_FIELD(totals, max_price, HOWDAH_INT64),
    HOWDAH_FIELD(totals, sum_price, HOWDAH_INT64),
};
static const howdah_row totals_row = HOWDAH_ROW(totals, totals_fields);

/* An auction and its figures. */
typedef struct stats {
    int64_t auction, bids, min_price, max_price, sum_price;
} stats;

static const howdah_field stats_fields[] = {
    HOWDAH_FIELD(stats, auction, HOWDAH_INT64),
    HOWDAH_FIELD(stats, bids, HOWDAH_INT64),
    HOWDAH_FIELD(stats, min_price, HOWDAH_INT64),
    HOWDAH_FIELD(stats, max_price, HOWDAH_INT64),
    HOWDAH_FIELD(stats, sum_price, HOWDAH_INT64),
};
static const howdah_row stats_row = HOWDAH_ROW(stats, stats_fields);

static howdah_state state = { .name = "stats", .kind = HOWDAH_VALUE, .row = &totals_row };
static howdah_output output = { .name = "output", .row = &stats_row };

static void on_bid(const void *row) {
    const bid *bid = row;
    totals now = { 1, bid->price, bid->price, bid->price };
    const totals *before = howdah_value_get(&state);
    if (before) {
        now.bids = before->bids + 1;
        if (before->min_price < now.min_price) now.min_price = before->min_price;
        if (before->max_price > now.max_price) now.max_price = before->max_price;
        if (__builtin_add_overflow(before->sum_price, bid->price, &now.sum_price))
            howdah_fail("the prices bid on auction %lld add up to more than an int64",
                        (long long)bid->auction);
    }
    stats after = { bid->auction, now.bids, now.min_price, now.max_price, now.sum_price };
    howdah_emit(&output, &after);
    howdah_value_put(&state, &now);
}

static howdah_input input = { .name = "input", .row = &bid_row, .each = on_bid };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &input, NULL },
    .outputs = (howdah_output *const[]){ &output, NULL },
    .states = (howdah_state *const[]){ &state, NULL },
};
