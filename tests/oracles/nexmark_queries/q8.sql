-- Monitor new users: persons who opened an auction in the window of 10 s in which they appeared; once,
-- however many auctions.
SELECT DISTINCT
    person.id, person.name, time_bucket(INTERVAL 10 SECONDS, person.date_time) AS window_start
FROM person
JOIN auction
    ON auction.seller = person.id
    AND time_bucket(INTERVAL 10 SECONDS, auction.date_time)
        = time_bucket(INTERVAL 10 SECONDS, person.date_time)
