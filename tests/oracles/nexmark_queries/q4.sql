-- Average price of each category: the mean of the highest bids of its auctions. Integers are divided,
-- as Flink's AVG does. Auctions without a bid in their time count nowhere.
WITH highest AS (
    SELECT auction.id, auction.category, max(bid.price) AS price
    FROM auction
    JOIN bid ON bid.auction = auction.id AND bid.date_time BETWEEN auction.date_time AND auction.expires
    GROUP BY auction.id, auction.category
)
SELECT category, (sum(price) // count(*))::BIGINT AS average
FROM highest
GROUP BY category
