-- Bids with their auctions, of one category. Whether the bid was in the auction's time does not matter.
SELECT
    bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.date_time AS bid_time,
    bid.extra AS bid_extra,
    item_name, description, initial_bid, reserve, auction.date_time AS auction_time, expires, seller,
    category, auction.extra AS auction_extra
FROM bid
JOIN auction ON auction.id = bid.auction
WHERE auction.category = 10
