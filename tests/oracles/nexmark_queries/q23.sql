-- Bids with their auctions and the sellers of these.
SELECT
    bid.auction, bid.bidder, bid.price, bid.date_time AS bid_time,
    item_name, category, seller,
    person.name, person.city, person.state
FROM bid
JOIN auction ON auction.id = bid.auction
JOIN person ON person.id = auction.seller
