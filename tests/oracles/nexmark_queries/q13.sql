-- Side input: every bid with the value of a table that does not change.
SELECT bid.auction, bid.bidder, bid.price, bid.date_time, side_input.value
FROM bid
JOIN side_input ON side_input.key = bid.auction % 10000
