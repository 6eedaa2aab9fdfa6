//! Bids with the number of their channel (Nexmark query 21): work on texts.
//!
//! Works on whole columns: texts are read where they lie. The query's regular expression,
//! `(&|^)channel_id=([^&]*)`, is a search for a few bytes, which needs no library.

use howdah_sdk::columns::texts;
use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    channel: String,
    url: String,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// A bid with the number of its channel.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct ChannelBid {
    auction: i64,
    bidder: i64,
    price: i64,
    channel: String,
    channel_id: String,
}

/// The operator.
#[derive(States)]
pub struct Channels;

#[operator]
impl Channels {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<ChannelBid>,
    ) -> Result<()> {
        let channels = batch.column::<String>("channel")?;
        let urls = batch.column::<String>("url")?;
        let (mut rows, mut ids) = (Vec::new(), Vec::new());
        for (number, row) in (0_u32..).zip(0..batch.rows()) {
            let id = channel_id(channels.text(row)?, urls.text(row)?);
            if id.is_some() {
                rows.push(number);
                ids.push(id);
            }
        }
        let mut columns = batch.copy_rows(&["auction", "bidder", "price", "channel"], &rows)?;
        columns.push(texts(ids));
        out.emit_columns_of_rows(batch, &rows, columns)
    }
}

/// The number of a channel: that of a well-known one, or what the URL says.
fn channel_id<'a>(channel: &str, url: &'a str) -> Option<&'a str> {
    const KNOWN: [(&str, &str); 4] =
        [("apple", "0"), ("google", "1"), ("facebook", "2"), ("baidu", "3")];
    let known = KNOWN.iter().find(|(name, _)| channel.eq_ignore_ascii_case(name));
    known.map(|(_, id)| *id).or_else(|| parameter(url, "channel_id="))
}

/// What stands in the URL behind this, which is at its beginning or behind an `&`, up to the next `&`.
fn parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    url.split('&').find_map(|part| part.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn a_channel_has_the_number_that_it_is_known_by_or_that_of_the_url() {
        let url = "https://www.nexmark.com/item.htm?query=1&channel_id=52&x=channel_id=7";
        assert_eq!(channel_id("Apple", url), Some("0"));
        assert_eq!(channel_id("channel-52", url), Some("52"));
        assert_eq!(channel_id("channel-52", "https://www.nexmark.com/item.htm?query=1"), None);
    }

    #[test]
    fn only_a_whole_parameter_counts() {
        let parameter = |url| parameter(url, "channel_id=");
        assert_eq!(parameter("channel_id=9"), Some("9"));
        assert_eq!(parameter("?channel_id=9"), None);
        assert_eq!(parameter("a&my_channel_id=9"), None);
        assert_eq!(parameter("a&channel_id=&channel_id=9"), Some(""));
    }

    #[test]
    fn bids_without_a_number_are_left_out() -> Result<()> {
        let bid = |channel: &str, url: &str| {
            let (channel, url) = (channel.to_owned(), url.to_owned());
            Bid { auction: 1, bidder: 2, price: 3, channel, url }
        };
        let out = |channel: &str, id: &str| {
            let (channel, channel_id) = (channel.to_owned(), id.to_owned());
            Event::insert(ChannelBid { auction: 1, bidder: 2, price: 3, channel, channel_id })
        };
        let mut host = TestHost::<Channels>::new()?;
        let bids = [bid("GOOGLE", "x"), bid("other", "x"), bid("other", "x&channel_id=5")];
        assert_eq!(host.process(bids)?, [out("GOOGLE", "1"), out("other", "5")]);
        assert_eq!(host.process([bid("other", "x")])?, []);
        Ok(())
    }
}
