-- Local items: auctions of one category whose seller lives in one of three states, which the generator
-- writes in lower case.
SELECT person.name, person.city, person.state, auction.id
FROM auction
JOIN person ON person.id = auction.seller
WHERE auction.category = 10 AND person.state IN ('or', 'id', 'ca')
