-- Winning bids: the highest bid on each auction in its time. Of equal prices the earliest; of those at
-- the same time, the first event.
SELECT
    auction.id, item_name, description, initial_bid, reserve, auction.date_time, expires, seller, category,
    auction.extra, bid.auction, bid.bidder, bid.price, bid.date_time AS bid_time, bid.extra AS bid_extra
FROM auction
JOIN bid ON bid.auction = auction.id AND bid.date_time BETWEEN auction.date_time AND auction.expires
QUALIFY row_number() OVER (PARTITION BY auction.id ORDER BY bid.price DESC, bid.date_time, bid.seq) = 1
